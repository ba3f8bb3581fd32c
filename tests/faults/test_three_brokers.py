"""Brokers die, restart and hang while events flow: nothing is lost, nothing is done twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.cluster import Cluster
from support.deployment import Deployment
from support.samples import Tableless
from support.waiting import wait_for
from tidegate.errors import DeliveryError
from tidegate.events import (
    CleaningReleased,
    Command,
    DirectoriesCleaned,
    Event,
    LockHold,
    LockReleased,
    Outcome,
    TaskIssued,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.wire import Wire, command_of
from tidegate.publisher import Publisher
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

pytestmark = [pytest.mark.kafka, pytest.mark.full]

VACUUMS = 3334  # with two releases each: 10,002 events
CHUNK = 100
WRITING_SECONDS = 12.0
SAID: dict[str, Any] = {"source": "writer", "occurred_at": datetime(2026, 11, 21, tzinfo=UTC)}
Fault = Callable[[Cluster, str], None]


class Recording(Tableless):
    """An executor that only says that it has cleaned."""

    name: ClassVar[str] = "recording"
    consumes: ClassVar[tuple[type[Command], ...]] = (CleaningReleased,)

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        assert isinstance(command, CleaningReleased)
        yield DirectoriesCleaned.about(
            command,
            directories=command.directories,
            files=1,
            bytes=1,
            duration_ms=1,
            source=self.name,
            occurred_at=command.occurred_at,
        )


def a_leader_is_killed(cluster: Cluster, prefix: str) -> None:
    leader = cluster.leader(f"{prefix}.vacuums")
    leader.kill()
    time.sleep(5)
    leader.start()


def a_broker_restarts(cluster: Cluster, prefix: str) -> None:
    broker = cluster.leader(f"{prefix}.coordinator.changelog")
    broker.stop()
    broker.start()


def the_network_stalls(cluster: Cluster, prefix: str) -> None:
    cluster.stall(cluster.leader(f"{prefix}.tasks"), 6)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def vacuum_and_releases(number: int) -> list[Event]:
    table: dict[str, Any] = {"table": f"lake.log.t{number}", "location": f"/lake/t{number}"}
    vacuum = VacuumFinished(
        **SAID,
        **table,
        kind=VacuumKind.MINOR,
        directories=("delta_0000001_0000003",),
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=f"log.t{number}:3:9223372036854775807::",
        own_lock_id=1,
        locks=(LockHold(lock_id=1), LockHold(lock_id=2)),
    )
    return [vacuum, *(LockReleased(**SAID, **table, lock_id=lock) for lock in (1, 2))]


def write(publisher: Publisher, events: list[Event]) -> None:
    """Publish at an even pace; what is not confirmed is published again, with the same ids."""
    began = time.monotonic()
    for start in range(0, len(events), CHUNK):
        time.sleep(max(0.0, began + start * WRITING_SECONDS / len(events) - time.monotonic()))
        for _ in range(5):
            try:
                publisher.publish(*events[start : start + CHUNK])
            except DeliveryError:
                continue
            break
        else:
            raise AssertionError("five times not confirmed")


def run_executor(deployment: Deployment, stop: threading.Event) -> None:
    bus = KafkaBus(deployment.connection, {"session.timeout.ms": 3000})
    loop = ExecutorLoop(Recording(), bus, deployment.prefix, threads=8)
    loop.run(stop)
    loop.close()
    bus.close()


@pytest.mark.parametrize("fault", [a_leader_is_killed, a_broker_restarts, the_network_stalls])
def test_ten_thousand_events_come_through(
    fault: Fault, cluster: Cluster, topic_prefix: str, tmp_path: Path
) -> None:
    cluster.wait_for_all()
    events = [release for number in range(VACUUMS) for release in vacuum_and_releases(number)]
    vacuums = {event.event_id for event in events if isinstance(event, VacuumFinished)}
    stop = threading.Event()
    with (
        Deployment(
            cluster.servers, topic_prefix, tmp_path, partitions=3, replication=3
        ) as deployment,
        ThreadPoolExecutor(2) as pool,
    ):

        def cleaned() -> dict[str, str | None]:
            found = deployment.events("outcomes")
            return {e.event_id: e.caused_by for e in found if isinstance(e, DirectoriesCleaned)}

        gate = deployment.run("coordinator")
        try:
            executor = pool.submit(run_executor, deployment, stop)
            writer = pool.submit(write, deployment.publisher(), events)
            time.sleep(WRITING_SECONDS / 3)
            fault(cluster, topic_prefix)
            writer.result(60)
            wait_for(
                "an outcome of every vacuum",
                lambda: executor.done() or gate.exit_code is not None or len(cleaned()) >= VACUUMS,
            )
        finally:
            stop.set()
        assert gate.exit_code is None, gate.tail()
        executor.result(60)

        kept = {
            event.event_id for name in ("vacuums", "locks") for event in deployment.events(name)
        }
        assert kept == {event.event_id for event in events}
        tasks = [task for task in deployment.events("tasks") if isinstance(task, TaskIssued)]
        carried = [command_of(task, Wire()) for task in tasks]
        commands = {command.event_id: command.caused_by for command in carried}
        assert Counter(commands.values()) == dict.fromkeys(vacuums, 1)
        assert Counter(cleaned().values()) == dict.fromkeys(commands, 1)
        assert deployment.records("dead-letters") == []
