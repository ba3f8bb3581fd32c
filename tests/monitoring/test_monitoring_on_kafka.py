"""A real service, scraped by a real Prometheus: its metrics, its health, its log."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from support.deployment import Deployment, end, exit_code
from support.deployment_events import vacuum
from support.samples import release
from support.waiting import wait_for
from support.watching import Prometheus, found_in, get, needs_prometheus, port_of

pytestmark = [pytest.mark.kafka]

SETTINGS = "[monitoring]\nport = 0"
_SECOND_PORT = r"(?s)/readyz on http://.*/readyz on http://[\d.]+:(\d+)"


def page_with(url: str, line: str) -> str | None:
    """The page, once it has this text."""
    text = get(url)
    return text if text and line in text else None


def released(deployment: Deployment) -> None:
    """Publish a vacuum and the release that it waits for."""
    deployment.publisher().publish(vacuum(7), release(7))


def test_a_gate_is_ready_measured_and_logs_json(deployment: Deployment) -> None:
    gate = deployment.run("coordinator")
    url = found_in(gate, r"/livez and /readyz on (http://127.0.0.1:\d+)")
    wait_for("ready", lambda: get(f"{url}/readyz") == "ok\n")
    released(deployment)

    published = 'tidegate_messages_published_total{kind="TaskIssued",service="coordinator"} 1'
    page = wait_for("the command", lambda: page_with(f"{url}/metrics", published))
    assert 'tidegate_event_to_action_seconds_count{kind="CleaningReleased"' in page
    assert f'topic="{deployment.prefix}.vacuums"' in page

    end(gate)
    assert exit_code(gate) == 0
    lines = [json.loads(line) for line in gate.log.read_text().splitlines()]
    assert any(line["event"].startswith("tidegate ") for line in lines)
    assert {"timestamp", "level", "logger", "instance"} <= set(lines[0])
    assert any(line.get("service") == "coordinator" for line in lines)


def test_a_hangup_lets_a_gate_go_on_with_the_settings_as_they_are_then(
    deployment: Deployment,
) -> None:
    gate = deployment.run("coordinator")
    ready, first = "ok\n", f"http://127.0.0.1:{port_of(gate)}"
    wait_for("ready", lambda: get(f"{first}/readyz") == ready)
    file = deployment.folder / "coordinator.toml"
    valid = file.read_text()
    file.write_text(f"{valid}\n[[alarms]]\noverdue_after = 'soon'")
    os.kill(gate.pid, signal.SIGHUP)
    wait_for("the fault", lambda: "nothing is changed: " in gate.log.read_text())
    assert get(f"{first}/readyz") == ready

    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.write_text(valid.replace("port = 0", f"port = {taken.getsockname()[1]}"))
        os.kill(gate.pid, signal.SIGHUP)
        wait_for("the refusal", lambda: "can't be listened on" in gate.log.read_text())
    assert get(f"{first}/readyz") == ready

    file.write_text(f"{valid}\n[[alarms]]\noverdue_after = '6h'")
    os.kill(gate.pid, signal.SIGHUP)

    again = f"http://127.0.0.1:{found_in(gate, _SECOND_PORT)}"
    wait_for("ready again", lambda: get(f"{again}/readyz") == ready)
    assert '"overdue_after": "6h"' in str(get(f"{again}/settings"))
    released(deployment)
    wait_for("the task", lambda: len(deployment.events("tasks")) == 1)
    end(gate)
    assert exit_code(gate) == 0


@needs_prometheus
def test_a_real_prometheus_scrapes_it(deployment: Deployment, tmp_path: Path) -> None:
    gate = deployment.run("coordinator")
    with Prometheus(tmp_path, {"tidegate": port_of(gate)}) as prometheus:
        both = 'up{job="tidegate"} == 1 and on() tidegate_build_info'
        wait_for("a scrape", lambda: bool(prometheus.query(both)))
