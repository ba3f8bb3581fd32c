"""A real service, scraped by a real Prometheus: its metrics, its health, its log."""

from __future__ import annotations

import json
import re
import shutil
import signal
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.deployment import Deployment, end, exit_code
from support.samples import release
from support.told import vacuum
from support.waiting import wait_for
from tidegate.local.embedded.process import Child

pytestmark = [pytest.mark.kafka]

PROMETHEUS = shutil.which("prometheus")
SETTINGS = "[monitoring]\nport = 0"
CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: tidegate
    static_configs: [{targets: ["127.0.0.1:%d"]}]
"""


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=SETTINGS) as deployment:
        yield deployment


def get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own address
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, ConnectionError):
        return None


def page_with(url: str, line: str) -> str | None:
    """The page, once it has this text."""
    text = get(url)
    return text if text and line in text else None


def found_in(child: Child, pattern: str) -> str:
    """What the first group of a pattern matches in a process's log, once it does."""
    look = re.compile(pattern)
    found = wait_for(pattern, lambda: look.search(child.log.read_text()))
    return str(found[1])


def released(deployment: Deployment) -> None:
    """Publish a vacuum and the release that it waits for."""
    deployment.publisher().publish(vacuum(7), release(7))


def test_a_gate_is_ready_measured_and_logs_json(deployment: Deployment) -> None:
    gate = deployment.run("reader-gate")
    url = found_in(gate, r"/livez and /readyz on (http://127.0.0.1:\d+)")
    wait_for("ready", lambda: get(f"{url}/readyz") == "ok\n")
    released(deployment)

    published = 'tidegate_messages_published_total{kind="CleaningReleased",service="reader-gate"} 1'
    page = wait_for("the command", lambda: page_with(f"{url}/metrics", published))
    assert 'tidegate_event_to_action_seconds_count{kind="CleaningReleased"' in page
    assert f'topic="{deployment.prefix}.vacuums"' in page

    end(gate)
    assert exit_code(gate) == 0
    lines = [json.loads(line) for line in gate.log.read_text().splitlines()]
    assert any(line["event"].startswith("tidegate ") for line in lines)
    assert {"timestamp", "level", "logger", "instance"} <= set(lines[0])
    assert any(line.get("service") == "reader-gate" for line in lines)


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian has it)")
def test_a_real_prometheus_scrapes_it(deployment: Deployment, tmp_path: Path) -> None:
    gate = deployment.run("reader-gate")
    port = int(found_in(gate, r"/readyz on http://127.0.0.1:(\d+)"))
    file = tmp_path / "prometheus.yml"
    file.write_text(CONFIG % port)
    command = [str(PROMETHEUS), f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'db'}"]
    prometheus = Child([*command, "--web.listen-address=127.0.0.1:0"], tmp_path / "prometheus.log")
    try:
        address = found_in(prometheus, r'Listening on" address=(\S+)')
        query = urllib.parse.quote('up{job="tidegate"} == 1 and on() tidegate_build_info')

        def scraped() -> str | None:
            text = get(f"http://{address}/api/v1/query?query={query}")
            return text if text and json.loads(text)["data"]["result"] else None

        wait_for("a scrape", scraped)
    finally:
        prometheus.end(signal.SIGTERM, 20)
