"""Tasks on real Kafka: copied, replayed, and carried out by a worker that stalled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from support.acid import (
    FIVE_LISTINGS,
    IDS_1_TO_3,
    INSERTS,
    MINOR_3,
    NOON,
    TABLE,
    build,
    release,
    tree,
)
from support.deployment import Deployment
from support.hudi_tables import at, four_commits, savepoint_request, timeline_names
from support.interfering import Interfering
from support.quarantined import QUARANTINE, undo_of, visible
from support.samples import release as lock_released
from support.savepoint_removals import removal
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import (
    CleaningHeld,
    CleaningRefused,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Event,
    LockHold,
    SavepointCreated,
    SavepointRemoved,
    Stopped,
    TaskEnd,
    TaskEnded,
    TaskIssued,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.topics import topic_of
from tidegate.events.wire import Wire, original_of
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.protocols import Executor
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

pytestmark = [pytest.mark.kafka]

AFTER_MINOR = FIVE_LISTINGS[1].directories


def now() -> datetime:
    return datetime.now(UTC)


def cleaner(root: Path) -> Cleaner:
    warehouse = Warehouse(WarehouseRoots.of(str(root)))
    return Cleaner(warehouse, ThreadMap(1), now, QUARANTINE)


class Place:
    """A deployment, and the tasks that its coordinator would issue."""

    def __init__(self, deployment: Deployment) -> None:
        self.prefix, self.made = deployment.prefix, deployment
        self.bus = KafkaBus(deployment.connection, {"session.timeout.ms": 6000})

    def issue(self, number: int, command: Command) -> None:
        carried = Wire().serialize(command, topic_of(type(command)).name(self.prefix))
        task = TaskIssued(
            table=command.table,
            location=command.location,
            caused_by=command.event_id,
            occurred_at=now(),
            source="coordinator",
            number=number,
            command=original_of(carried, now()),
        )
        self.bus.send([Wire().serialize(task, f"{self.prefix}.tasks")])

    def outcomes(self) -> list[Event]:
        """The outcomes, but for the reports of progress and the last words."""
        found = self.made.events("outcomes")
        return [event for event in found if not type(event).__name__.endswith(("Started", "Ended"))]

    def ended(self) -> list[int]:
        """The numbers of the tasks in the order of their ends, without the answers to copies."""
        found = [event for event in self.made.events("outcomes") if isinstance(event, TaskEnded)]
        return [event.number for event in found if event.end is not TaskEnd.NUMBER_TAKEN]


def worked_off(place: Place, executor: Executor, tasks: int, bus: KafkaBus | None = None) -> None:
    """Let a worker read this number of tasks and finish them, then leave its group."""
    loop, read = ExecutorLoop(executor, bus or place.bus, place.prefix), 0
    for _ in range(600):
        read += loop.step(0.1)
        if read >= tasks and not loop.pending:
            break
    assert loop.close(10)
    assert read == tasks


@pytest.fixture
def place(deployment: Deployment) -> Iterator[Place]:
    made = Place(deployment)
    yield made
    made.bus.close()


def test_after_an_undo_neither_a_copied_task_nor_a_replay_of_the_group_removes_anything(
    place: Place, tmp_path: Path
) -> None:
    command = release(str(build(tmp_path / "t", AFTER_MINOR)))
    place.issue(1, command)
    place.issue(2, undo_of(command))
    worked_off(place, cleaner(tmp_path), 2)
    assert [type(event) for event in place.outcomes()] == [DirectoriesCleaned, CleaningUndone]
    before, outcomes, ended = tree(tmp_path / "t"), place.outcomes(), place.ended()
    assert set(INSERTS) <= set(visible(tmp_path / "t"))

    copied = place.made.records("tasks")[0]
    place.bus.send([Message(f"{place.prefix}.tasks", copied.key, copied.value, copied.headers)])
    worked_off(place, cleaner(tmp_path), 1)
    assert (tree(tmp_path / "t"), place.outcomes(), place.ended()) == (before, outcomes, ended)

    admin, group = AdminClient({**place.made.connection}), f"{place.prefix}.cleaner"
    admin.delete_consumer_groups([group])[group].result(30)
    worked_off(place, cleaner(tmp_path), 3)  # reads its topics from their beginning
    assert tree(tmp_path / "t") == before
    assert place.ended() == [1, 2, 2]  # the outcome of the last task is published again


def test_a_hold_during_a_cleaning_stops_it_and_is_true_once_it_is_confirmed(
    place: Place, tmp_path: Path
) -> None:
    made = place.made
    table = build(tmp_path / "t", AFTER_MINOR)
    started, go_on = threading.Event(), threading.Event()

    def pause(name: str) -> None:
        del name
        started.set()
        assert go_on.wait(120)

    slow = Cleaner(Interfering(tmp_path, after=pause), ThreadMap(1), now)
    worker = ExecutorLoop(slow, place.bus, place.prefix)
    coordinator = CoordinatorLoop(ReaderGate(), place.bus, place.prefix)
    its = VacuumFinished(
        table=TABLE,
        location=str(table),
        occurred_at=NOON,
        source="compactor",
        kind=VacuumKind.MINOR,
        directories=(MINOR_3,),
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=IDS_1_TO_3,
        own_lock_id=1,
        locks=(LockHold(lock_id=1),),
    )
    publisher = made.publisher()
    publisher.publish(its, lock_released(1, TABLE))

    def until(done: Callable[[], object], *loops: CoordinatorLoop | ExecutorLoop) -> None:
        for _ in range(1200):
            for loop in loops:
                loop.step(0.05)
            if done():
                return
        raise AssertionError(made.events("outcomes"))

    until(started.is_set, coordinator, worker)
    publisher.hold_cleaning(table=TABLE, requested_by="mara", reason="an audit")

    def held() -> bool:
        return any(isinstance(event, CleaningHeld) for event in made.events("outcomes"))

    until(held, coordinator, worker)  # although the cleaning hangs
    left = visible(table)
    go_on.set()
    until(lambda: not worker.pending, worker)
    assert visible(table) == left
    assert len(set(INSERTS) & set(left)) == len(INSERTS) - 1
    ends = [event for event in made.events("outcomes") if isinstance(event, TaskEnded)]
    assert {(end.number, end.end, end.stopped) for end in ends} == {
        (1, TaskEnd.SUPERSEDED, None),
        (2, TaskEnd.ANSWERED, Stopped.BEGUN),
    }

    publisher.release_hold(table=TABLE, requested_by="mara", reason="it is done")
    until(lambda: visible(table) == [MINOR_3], coordinator, worker)
    worker.close(10)
    coordinator.close()


class Stalling(Warehouse):
    """Stalls after a savepoint's inflight file was created."""

    def __init__(self, root: Path) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.stalls, self.wakes = threading.Event(), threading.Event()

    def create(self, location: str, content: bytes) -> None:
        super().create(location, content)
        if location.endswith(".savepoint.inflight"):
            self.stalls.set()
            assert self.wakes.wait(60)


def test_a_writer_that_wakes_up_after_a_savepoint_was_removed_does_not_complete_it(
    place: Place, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    hung = Stalling(tmp_path)
    place.issue(1, savepoint_request(table, at(2)))
    stalled = ExecutorLoop(SavepointWriter(hung, ThreadMap(1), now), place.bus, place.prefix)
    for _ in range(600):
        stalled.step(0.1)
        if hung.stalls.is_set():
            break
    assert not stalled.close(0)  # it lost its partitions, and its thread goes on

    place.issue(2, removal(table, 2))
    quick = SavepointWriter(Warehouse(hung.roots), ThreadMap(1), now)
    worked_off(place, quick, 2)
    assert [type(event) for event in place.outcomes()] == [SavepointCreated, SavepointRemoved]
    assert not [name for name in timeline_names(table) if "savepoint" in name]

    hung.wakes.set()
    assert stalled.close(30)
    assert not [name for name in timeline_names(table) if "savepoint" in name]
    assert place.ended() == [1, 2]


def test_of_two_deployments_and_two_names_the_first_keeps_the_location(
    place: Place, bootstrap_servers: str, tmp_path: Path
) -> None:
    command = release(str(build(tmp_path / "t", AFTER_MINOR)))
    place.issue(1, command)
    worked_off(place, cleaner(tmp_path), 1)
    place.issue(7, release(f"file://{command.location}", table="hive.sales.other"))
    worked_off(place, cleaner(tmp_path), 1)
    with Deployment(bootstrap_servers, f"{place.prefix}-2", tmp_path) as staging:
        other = Place(staging)
        other.issue(9, command)
        worked_off(other, cleaner(tmp_path), 1, other.bus)
        other.bus.close()
        refused = [place.outcomes()[-1], *other.outcomes()]
    for event in refused:
        assert isinstance(event, CleaningRefused)
        assert event.reason == "location-of-another-table"
        assert f"belongs to {command.table}" in event.message
    assert f"{command.table} of the deployment" in str(getattr(refused[-1], "message", ""))
