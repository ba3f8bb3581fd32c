"""What a worker publishes for a task: once, by its number on the table, whatever comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.acid import FIVE_LISTINGS, INSERTS, build, names_in, release, tree
from support.hudi_tables import at, four_commits, savepoint_request, ticking, timeline_names
from support.interfering import Interfering
from support.quarantined import QUARANTINE, undo_of, visible
from support.samples import events_on, memory_bus
from support.savepoint_removals import removal
from tidegate.cleaning import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import DeliveryError
from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Outcome,
    SavepointCreated,
    SavepointRemoved,
)
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.command_runner import Attempts, CommandRunner
from tidegate.runtime.executor.outcome_lookup import OutcomeLookup
from tidegate.runtime.memory.bus import MemoryBus
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import RetryPolicy
from tidegate.savepoints import SavepointWriter
from tidegate.tables.claim import HIVE, Task
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

AFTER_MINOR = FIVE_LISTINGS[1].directories
AT_ZERO = Record(Partition("tidegate.tasks", 0), 0, b"", b"", (), 0)


@dataclass
class Workers:
    """The workers of one deployment: each task is carried out as one of them would do it."""

    root: Path
    deployment: str = "cluster/tidegate"
    bus: MemoryBus = field(default_factory=memory_bus)

    def do(
        self, number: int, command: Command, executor: Executor | None = None, **changes: str
    ) -> list[Outcome]:
        """Carry a task out; return what it published."""
        executor = executor or Cleaner(self.warehouse, ThreadMap(1), ticking(), QUARANTINE)
        before = len(events_on(self.bus, "tidegate.outcomes"))
        fields = {"id": f"task-{number}", "table": command.table, "deployment": self.deployment}
        task = Task(number, **(fields | changes))
        wire, retries = Wire(), RetryPolicy(attempts=1)
        lookup = OutcomeLookup(self.bus, wire, "tidegate")
        runner = CommandRunner(executor, self.bus, "tidegate", wire, retries, lookup)
        assert runner.attempt(command, Attempts(AT_ZERO, task=task)) is None
        outcomes = events_on(self.bus, "tidegate.outcomes")[before:]
        return [outcome for outcome in outcomes if isinstance(outcome, Outcome)]

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(WarehouseRoots.of(str(self.root)))


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> CleaningReleased:
    return release(str(build(tmp_path / "t", AFTER_MINOR)))


def kinds(outcomes: list[Outcome]) -> list[type[Outcome]]:
    return [type(outcome) for outcome in outcomes]


def test_a_copied_cleaning_after_an_undo_does_nothing(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    assert kinds(workers.do(1, command)) == [CleaningStarted, DirectoriesCleaned]
    assert kinds(workers.do(2, undo_of(command))) == [CleaningUndone]
    before = tree(tmp_path)
    assert workers.do(1, command) == []  # a copy, or a replay of the cleaner's group
    assert tree(tmp_path) == before
    assert set(INSERTS) <= set(visible(tmp_path / "t"))


def test_a_repeat_publishes_the_recorded_outcome_and_nothing_else(
    workers: Workers, command: CleaningReleased
) -> None:
    _, cleaned = workers.do(1, command)
    assert workers.do(1, command) == [cleaned]


def test_an_outcome_is_on_the_table_before_it_is_published(
    workers: Workers, command: CleaningReleased, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies between the two leaves the outcome to its successor."""
    send = workers.bus.send

    def fails_for_last(messages: list[Message]) -> None:
        if any(b"DirectoriesCleaned" in repr(message).encode() for message in messages):
            raise DeliveryError("the broker is away")
        send(messages)

    with monkeypatch.context() as patch:
        patch.setattr(workers.bus, "send", fails_for_last)
        with pytest.raises(DeliveryError):
            workers.do(1, command)
    (cleaned,) = workers.do(1, command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert cleaned.directories == INSERTS  # those that the first worker moved


def test_a_cleaner_that_stalls_removes_nothing_once_a_stop_is_on_the_table(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    removed: list[str] = []

    def stop(name: str) -> None:
        removed.append(name)
        Cleaner(workers.warehouse, ThreadMap(1), ticking()).claim(
            command, Task(2, "stop", command.table, workers.deployment)
        )

    waits = Interfering(tmp_path, after=stop)
    stalled = Cleaner(waits, ThreadMap(1), ticking())
    assert kinds(workers.do(1, command, stalled)) == [CleaningStarted]
    assert workers.do(1, command) == []  # and its repeat neither


def test_two_deployments_and_two_names_are_told_apart_by_name(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    workers.do(1, command)
    before = names_in(tmp_path / "t")
    other = release(command.location, table="hive.sales.other")
    for stranger, asked in ((workers, other), (Workers(tmp_path, "staging/tidegate"), command)):
        (refused,) = stranger.do(7, asked)
        assert isinstance(refused, CleaningRefused)
        assert refused.reason == "location-of-another-table"
        assert command.table in refused.message
    assert names_in(tmp_path / "t") == before


def test_a_refused_task_is_refused_again_in_the_same_words(
    workers: Workers, tmp_path: Path
) -> None:
    command = release(str(build(tmp_path / "t", FIVE_LISTINGS[0].directories)))
    (refused,) = workers.do(1, command)
    assert isinstance(refused, CleaningRefused)
    assert refused.reason == "products-missing"
    build(tmp_path / "t", {"delta_0000001_0000003": 10})
    assert workers.do(1, command) == [refused]


def test_without_a_table_there_is_a_refusal_and_no_folder(workers: Workers, tmp_path: Path) -> None:
    (refused,) = workers.do(1, release(str(tmp_path / "dropped")))
    assert isinstance(refused, CleaningRefused)
    assert refused.reason == "no-such-table"
    assert names_in(tmp_path) == []


class Stalling(Warehouse):
    """Lets something happen right after a savepoint's inflight file was created."""

    def __init__(self, root: Path, meanwhile: Iterator[object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.meanwhile = meanwhile

    def create(self, location: str, content: bytes) -> None:
        super().create(location, content)
        if location.endswith(".savepoint.inflight"):
            next(self.meanwhile)


def test_a_writer_that_stalls_does_not_complete_a_savepoint_that_was_removed(
    workers: Workers, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    request = savepoint_request(table, at(2))
    quick = SavepointWriter(workers.warehouse, ThreadMap(1), ticking())

    def meanwhile() -> Iterator[object]:
        """Another worker completes the savepoint; then a person has it removed."""
        yield (workers.do(1, request, quick), workers.do(2, removal(table, 2), quick))

    stalled = SavepointWriter(Stalling(tmp_path, meanwhile()), ThreadMap(1), ticking())
    assert kinds(workers.do(1, request, stalled)) == [SavepointCreated, SavepointRemoved]
    assert not [name for name in timeline_names(table) if "savepoint" in name]


def test_the_newest_commit_is_the_newest_of_when_the_task_was_first_begun(
    workers: Workers, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    request = savepoint_request(table, None)

    def meanwhile() -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    dying = SavepointWriter(Stalling(tmp_path, meanwhile()), ThreadMap(1), ticking())
    with pytest.raises(KeyboardInterrupt):
        workers.do(1, request, dying)
    table.commit(at(5), at(4))
    (created,) = workers.do(1, request, SavepointWriter(workers.warehouse, ThreadMap(1), ticking()))
    assert isinstance(created, SavepointCreated)
    assert created.instant == at(4)
    assert not [name for name in timeline_names(table) if name.startswith(f"{at(5)}.savepoint")]


def test_the_hidden_folder_of_a_table_is_left_by_its_cleaning(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    workers.do(1, command, Cleaner(workers.warehouse, ThreadMap(1), ticking()))
    assert names_in(tmp_path / "t" / HIVE) == ["owner", "tasks"]
    assert names_in(tmp_path / "t" / HIVE / "tasks") == ["1", "1.done"]
