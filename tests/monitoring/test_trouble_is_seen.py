"""A kill, an outage and a flood of dead letters: each in the log, the metrics and the alerts."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.dashboard import PANELS, PROBLEMS
from support.deployment import Deployment, end
from support.waiting import wait_for
from support.watching import Prometheus, get, lines_of, needs_prometheus, port_of, run_monitor
from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.process import Child
from tidegate.errors import TransientError
from tidegate.ops.status import read_status
from tidegate.publisher import ConfirmedProducer, Message
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.full, needs_prometheus]

OUTAGE_SECONDS = 120
SETTINGS = "stop_seconds = 10\n[monitoring]\nport = 0"


@pytest.fixture
def place(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=SETTINGS) as place:
        yield place


class Watched:
    """A gate, the monitor and a Prometheus that scrapes both."""

    def __init__(self, place: Deployment, stack: ExitStack) -> None:
        self.place, self.group = place, f"{place.prefix}.coordinator"
        self.gate = place.run("coordinator")
        self.monitor = run_monitor(place.settings_file("monitor", {}), place.folder)
        stack.callback(end, self.monitor)
        self.ports = {"tidegate": port_of(self.gate), "tidegate-monitor": port_of(self.monitor)}
        self.prometheus = stack.enter_context(Prometheus(place.folder, self.ports))
        members = f'kafka_consumergroup_members{{consumergroup="{self.group}"}} == 1'
        wait_for("the gate is seen", lambda: bool(self.prometheus.query(members)))

    def status(self) -> dict[str, Any]:
        """What `tidegate status` says of the gate."""
        settings = Settings.load(self.place.settings_file("status", {}))
        now = datetime.now(UTC)
        seen = read_status(settings, now - timedelta(hours=1), now)
        services: list[dict[str, Any]] = seen["services"]
        return next(service for service in services if service["service"] == "coordinator")

    def logged(self, text: str, child: Child | None = None) -> int:
        """How many lines of a log, by default the gate's, have this text."""
        return sum(text in str(line["event"]) for line in lines_of(child or self.gate))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def problems(prometheus: Prometheus) -> int:
    """What the dashboard's first tile shows."""
    [series] = prometheus.query(PROBLEMS)
    return int(series["value"][1])


def test_a_kill_is_seen(place: Deployment, stack: ExitStack) -> None:
    watched = Watched(place, stack)
    prometheus = watched.prometheus
    queries = [query for panel in PANELS for query, _ in panel.queries]
    unknown = [it for it in queries if not prometheus.answers(re.sub(r"\$__\w+", "1m", it))]
    assert unknown == []
    # the three services that this deployment does not start
    wait_for("the first tile", lambda: problems(prometheus) == 3)
    assert not prometheus.would_alert("TidegateProcessDown")
    assert not prometheus.would_alert("TidegateServiceWithoutMembers", consumergroup=watched.group)

    os.kill(watched.gate.pid, signal.SIGKILL)

    wait_for("the process is down", lambda: prometheus.would_alert("TidegateProcessDown"))
    wait_for(
        "the gate is down",
        lambda: prometheus.would_alert(
            "TidegateServiceWithoutMembers", consumergroup=watched.group
        ),
    )
    assert watched.status()["problem"] == "it is not running"
    # its process, its group, and the three from before
    wait_for("the first tile", lambda: problems(prometheus) == 5)
    again = place.run("coordinator", "again")
    wait_for("it runs again", lambda: get(f"http://127.0.0.1:{port_of(again)}/readyz") == "ok\n")
    assert any("owns" in str(line["event"]) for line in lines_of(again))


def test_an_outage_of_two_minutes_is_seen_once(
    topic_prefix: str, tmp_path: Path, stack: ExitStack
) -> None:
    broker = stack.enter_context(EmbeddedBroker(tmp_path / "kafka"))
    place = stack.enter_context(
        Deployment(broker.bootstrap_servers, topic_prefix, tmp_path, settings=SETTINGS)
    )
    watched = Watched(place, stack)
    prometheus, last = watched.prometheus, "tidegate_monitor_last_poll_timestamp_seconds"
    broker.kill()
    wait_for("the outage in the log", lambda: watched.logged("no offsets are committed for now"))
    wait_for(
        "the monitor's log",
        lambda: watched.logged("the deployment can't be polled", watched.monitor),
    )
    with pytest.raises(TransientError):
        watched.status()
    time.sleep(OUTAGE_SECONDS)  # the outage lasts
    assert prometheus.query(f"time() - {last} > {OUTAGE_SECONDS - 3}")
    assert get(f"http://127.0.0.1:{watched.ports['tidegate']}/livez") == "ok\n"
    assert get(f"http://127.0.0.1:{watched.ports['tidegate-monitor']}/readyz") is None

    broker.start()

    wait_for("the end in the log", lambda: watched.logged("offsets are committed again"))
    wait_for("it is seen again", lambda: bool(prometheus.query(f"time() - {last} < 3")))
    assert watched.logged("no offsets are committed for now") == 1
    assert watched.logged("the deployment can't be polled", watched.monitor) == 1


def test_invalid_messages_of_many_tables_are_seen_and_stop_nothing(
    place: Deployment, stack: ExitStack
) -> None:
    watched = Watched(place, stack)
    prometheus = watched.prometheus
    counted = 'tidegate_dead_letters_seen_total{fault="message"}'
    wait_for("the count begins", lambda: bool(prometheus.query(f"{counted} == 0")))
    assert not prometheus.would_alert("TidegateDeadLetters", fault="message")

    keys = [f"lake.a.t{number}".encode() for number in range(60)]
    junk = [Message(f"{place.prefix}.locks", key, b"junk") for key in keys]
    ConfirmedProducer(place.connection).send(junk)

    wait_for("the dead letters are counted", lambda: bool(prometheus.query(f"{counted} == 60")))
    wait_for("the alert", lambda: prometheus.would_alert("TidegateDeadLetters", fault="message"))
    assert not prometheus.would_alert("TidegateServiceFails")
    assert not prometheus.would_alert("TidegateProcessDown")
    assert watched.gate.exit_code is None
    assert watched.status()["dead_letters"] == 60
    assert watched.logged("dead-lettering") == 60
