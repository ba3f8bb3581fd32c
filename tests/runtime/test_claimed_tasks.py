"""What a worker publishes for a task: once, by its number on the table, whatever comes twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.acid import FIVE_LISTINGS, IDS_1_TO_3, INSERTS, NOON, build, names_in, release, tree
from support.hudi_tables import (
    NOW,
    at,
    data_files,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
)
from support.interfering import Interfering
from support.memory_bus import MemoryBus
from support.quarantined import QUARANTINE, undo_of, visible
from support.samples import events_on, memory_bus, message, work_off
from support.savepoint_removals import removal
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import DeliveryError, FormatError, MessageTooLargeError, TransientError
from tidegate.events import (
    CleaningRefused,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Outcome,
    RestoreCompleted,
    SavepointCreated,
    SavepointRemoved,
    Stopped,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.wire import Wire, original_of
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.publisher import Message
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.command_runner import Attempts, CommandRunner
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.protocols import Executor
from tidegate.runtime.retry import RetryPolicy
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import FileInfo, Storage
from tidegate.tables import task_numbers
from tidegate.tables.claim import HIVE, HUDI, MOST_STARTS, Task
from tidegate.tables.hudi import check_owner
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import Overtaken, TaskNumbers
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
        self, number: int, command: Command, executor: Executor | None = None, **changes: object
    ) -> list[Outcome]:
        """Carry a task out; return what it published."""
        executor = executor or Cleaner(self.warehouse, ThreadMap(1), ticking(), QUARANTINE)
        before = len(events_on(self.bus, "tidegate.outcomes"))
        task = issued(number, command, **changes)
        wire, retries = Wire(), RetryPolicy(attempts=1)
        runner = CommandRunner(
            executor, self.bus, "tidegate", wire, retries, deployment=self.deployment
        )
        assert runner.attempt(Attempts(AT_ZERO, task, command)) is None
        found = events_on(self.bus, "tidegate.outcomes")[before:]
        outcomes = [outcome for outcome in found if isinstance(outcome, Outcome)]
        if outcomes and not isinstance(outcomes[0], CleaningStarted | TaskEnded):
            assert isinstance(outcomes[-1], TaskEnded)
        return [outcome for outcome in outcomes if not isinstance(outcome, TaskEnded)]

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(WarehouseRoots.of(str(self.root)))


def issued(number: int, command: Command, **changes: object) -> TaskIssued:
    """A task as the coordinator issues it."""
    fields: dict[str, object] = {
        "table": command.table,
        "location": command.location,
        "caused_by": command.event_id,
        "occurred_at": NOON,
        "source": "coordinator",
        "number": number,
        "command": original_of(Wire().serialize(command, "tidegate.tasks"), NOON),
    }
    return TaskIssued.model_validate(fields | changes)


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


def test_a_table_that_has_a_name_gives_none_of_its_partitions_to_another(
    workers: Workers, tmp_path: Path
) -> None:
    for name in ("p=1", "p=2"):
        build(tmp_path / "t" / name, AFTER_MINOR)
    first = release(str(tmp_path / "t"), partition="p=1")
    assert kinds(workers.do(1, first)) == [CleaningStarted, DirectoriesCleaned]
    before = tree(tmp_path)
    ids = IDS_1_TO_3.replace("default.table_txn_001", "sales.other")
    changes = {"table": "hive.sales.other", "partition": "p=2", "valid_write_ids": ids}
    other = release(f"file://{tmp_path}/t", **changes)
    for answers in (workers.do(7, other), workers.do(8, undo_of(other, table=other.table))):
        assert [getattr(it, "reason", None) for it in answers] == ["location-of-another-table"]
        assert f"belongs to {first.table}, not to hive.sales.other" in str(answers[0])
    assert tree(tmp_path) == before
    for partition in ("p=1", "p=2"):  # a publisher sees it before the task
        check_owner(Storage(), first.location, first.table, partition)
        with pytest.raises(Refused, match=f"belongs to the table {first.table}"):
            check_owner(Storage(), first.location, other.table, partition)

    again = release(str(tmp_path / "t"), partition="p=2")
    assert kinds(workers.do(2, again)) == [CleaningStarted, DirectoriesCleaned]


def stop_of(number: int, command: Command) -> StopRequested:
    return StopRequested(
        table=command.table,
        location=command.location,
        occurred_at=NOON,
        source="coordinator",
        caused_by=issued(number, command).event_id,
        stops=number,
        command=command.event_id,
        kind=type(command).__name__,
    )


def test_a_stop_says_how_far_the_task_was_and_the_task_does_nothing_more(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    workers.do(2, stop_of(1, command))
    assert [end.stopped for end in ends(workers)] == [Stopped.NOT_BEGUN]
    assert workers.do(1, command) == []
    assert set(INSERTS) <= set(names_in(tmp_path / "t"))

    with pytest.raises(KeyboardInterrupt):  # it dies after it has removed one directory
        workers.do(3, command, Cleaner(Interfering(tmp_path, after=_die), ThreadMap(1), ticking()))
    workers.do(4, stop_of(3, command))
    assert ends(workers)[-1].stopped is Stopped.BEGUN
    assert workers.do(3, command) == []

    done = workers.do(5, command)
    again = workers.do(6, stop_of(5, command))
    assert again == done[-1:]  # the worker may have died before it published them
    assert [end.number for end in ends(workers)][-2:] == [5, 6]
    assert ends(workers)[-1].stopped is Stopped.DONE


def test_a_stop_does_not_take_the_outcomes_of_an_earlier_task_with_the_number(
    workers: Workers, command: CleaningReleased
) -> None:
    workers.do(1, command)  # then the coordinator's rows are lost: it begins again at 1
    another = release(command.location, caused_by="another-vacuum")
    assert workers.do(2, stop_of(1, another)) == []
    assert ends(workers)[-1].stopped is Stopped.BEGUN  # as far as the stop can tell
    assert workers.do(1, another) == []


@pytest.mark.parametrize(
    "forged", [{"table": "lake.sales.another"}, {"location": "/lake/another"}], ids=str
)
def test_outcomes_of_another_table_that_lie_on_this_one_are_not_published(
    workers: Workers, command: CleaningReleased, forged: dict[str, object]
) -> None:
    """Who may write to one table has no worker sign what it says of another."""
    _, cleaned = workers.do(1, command)
    assert isinstance(cleaned, DirectoriesCleaned)
    planted = cleaned.model_dump(mode="json") | {"event_id": ""} | forged
    content = json.dumps([{"kind": "DirectoriesCleaned", "outcome": planted}])
    (Path(command.location) / HIVE / "tasks" / "2.done").write_text(content)
    before = events_on(workers.bus, "tidegate.outcomes")
    with pytest.raises(FormatError, match="of another table"):
        workers.do(2, undo_of(command))
    assert events_on(workers.bus, "tidegate.outcomes") == before


def _die(name: str) -> None:
    raise KeyboardInterrupt(name)


def test_a_stop_runs_beside_the_task_that_it_stops(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    started, go_on = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        del name
        started.set()
        assert go_on.wait(60)

    slow = Cleaner(Interfering(tmp_path, after=wait), ThreadMap(1), ticking())
    loop = ExecutorLoop(slow, workers.bus)
    workers.bus.send([message(issued(1, command))])
    loop.step(0)
    assert started.wait(60)
    workers.bus.send([message(issued(2, stop_of(1, command)))])
    for _ in range(600):
        loop.step(0.01)
        if ends(workers):
            break
    go_on.set()
    work_off(loop)

    assert [(end.number, end.stopped) for end in ends(workers)] == [(2, Stopped.BEGUN)]
    assert len(set(INSERTS) & set(names_in(tmp_path / "t"))) == len(INSERTS) - 1


def test_a_task_that_ends_every_process_is_given_up_and_its_table_goes_on(
    command: CleaningReleased, tmp_path: Path
) -> None:
    workers = Workers(tmp_path, "memory/tidegate")
    deadly = Cleaner(Interfering(tmp_path, before=_die), ThreadMap(1), ticking())
    for _ in range(MOST_STARTS):
        with pytest.raises(KeyboardInterrupt):
            workers.do(1, command, deadly)
    workers.bus.send([message(issued(1, command))])
    work_off(ExecutorLoop(deadly, workers.bus, retries=RetryPolicy(1)))

    [dead] = workers.bus.records("tidegate.dead-letters")
    assert b"given up" in (dict(dead.headers)["x-exception-message"] or b"")
    assert [(end.number, end.end) for end in ends(workers)] == [(1, TaskEnd.DEAD_LETTERED)]
    assert workers.do(1, command) == []
    assert kinds(workers.do(2, command)) == [CleaningStarted, DirectoriesCleaned]  # redriven
    left = names_in(tmp_path / "t" / HIVE / "tasks")
    assert left == ["2", "2.done"]


def test_a_task_that_is_done_is_not_issued_again_although_its_outcome_could_not_be_published(
    command: CleaningReleased, tmp_path: Path
) -> None:
    class Small(MemoryBus):
        def send(self, messages: Sequence[Message]) -> None:
            sent = [Wire().deserialize(it.key, it.value) for it in messages]
            if any(isinstance(event, DirectoriesCleaned) for event in sent):
                raise MessageTooLargeError("tidegate.outcomes takes no message of 2 MB")
            super().send(messages)

    bus = Small({log.topic for log in memory_bus()._logs})
    workers = Workers(tmp_path, "memory/tidegate", bus)
    bus.send([message(issued(1, command))])
    cleaner = Cleaner(workers.warehouse, ThreadMap(1), ticking())
    work_off(ExecutorLoop(cleaner, bus, retries=RetryPolicy(1)))

    assert len(bus.records("tidegate.dead-letters")) == 1
    assert [(end.number, end.end) for end in ends(workers)] == [(1, TaskEnd.ANSWERED)]


def test_attempts_of_one_process_are_not_counted(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    def fail(name: str) -> None:
        raise TransientError(name)

    cleaner = Cleaner(Interfering(tmp_path, before=fail), ThreadMap(1), ticking())
    runner = CommandRunner(cleaner, workers.bus, "tidegate", Wire(), RetryPolicy(99, 0, 0))
    attempts = Attempts(AT_ZERO, issued(1, command), command)
    for _ in range(2 * MOST_STARTS):
        assert runner.attempt(attempts) is not None
    assert names_in(tmp_path / "t" / HIVE / "tasks") == ["1"]


def test_a_restore_has_begun_once_one_is_on_the_timeline(workers: Workers, tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    request = restore_request(table, at(2))
    restorer = Restorer(workers.warehouse, ThreadMap(1), ticking())

    def stopped_after_claim(number: int) -> Stopped | None:
        task = issued(number, request)
        restorer.claim(request, Task(number, task.event_id, request.table, workers.deployment))
        workers.do(number + 1, stop_of(number, request), restorer)
        return ends(workers)[-1].stopped

    assert stopped_after_claim(1) is Stopped.NOT_BEGUN
    table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED))
    assert stopped_after_claim(3) is Stopped.BEGUN


def test_a_stop_that_can_not_read_the_table_has_taken_it_and_says_so(
    workers: Workers, tmp_path: Path
) -> None:
    """Its task publishes nothing any more: without an answer the table would stand still."""
    table = four_commits(tmp_path / "orders", 9)
    request = restore_request(table, at(2))
    restorer = Restorer(workers.warehouse, ThreadMap(1), ticking())
    (tmp_path / "orders" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=other")
    workers.do(2, stop_of(1, request), restorer)

    assert workers.do(1, request, restorer) == []
    stop, late = ends(workers)
    assert (stop.number, stop.stopped) == (2, Stopped.BEGUN)
    assert (late.number, late.end, late.highest) == (1, TaskEnd.NUMBER_TAKEN, 2)


def test_a_claim_that_comes_during_a_slow_listing_counts_a_second_after_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "1").write_text("id")
    now = [100.0]

    class Slow(Warehouse):
        def list(self, location: str) -> list[FileInfo]:
            found = super().list(location)
            now[0] += 10  # meanwhile a stop claims the table
            return found

    clock = SimpleNamespace(clock_gettime=lambda _: now[0], sleep=time.sleep)
    monkeypatch.setattr(task_numbers, "time", clock)
    numbers = TaskNumbers(Slow(WarehouseRoots.of(str(tmp_path))), str(tmp_path), 1)
    numbers.newest()
    (tmp_path / "tasks" / "2").write_text("stop")

    with pytest.raises(Overtaken):
        numbers.check_if_old()


def test_a_stop_waits_for_every_earlier_task_that_may_be_at_work(
    workers: Workers, command: CleaningReleased, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(TaskNumbers, "outlast", lambda it: waited.append(it.number))
    cleaner = Cleaner(workers.warehouse, ThreadMap(1), ticking())
    cleaner.claim(command, Task(1, "stalled", command.table, workers.deployment))
    workers.do(3, stop_of(2, command))  # of a task that has not claimed the table

    assert waited == [3]


def test_two_deployments_and_two_names_are_refused_by_name(
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


def ends(workers: Workers) -> list[TaskEnded]:
    found = events_on(workers.bus, "tidegate.outcomes")
    return [outcome for outcome in found if isinstance(outcome, TaskEnded)]


def test_every_task_has_one_last_word_always_the_same(
    workers: Workers, command: CleaningReleased
) -> None:
    workers.do(1, command)
    workers.do(1, command)
    first, again = ends(workers)
    assert first == again
    assert (first.number, first.end) == (1, TaskEnd.ANSWERED)
    assert first.caused_by == issued(1, command).event_id


def test_a_task_whose_number_another_one_has_ends_with_the_highest_number(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    workers.do(4, command)
    before = tree(tmp_path)
    workers.do(4, release(command.location, caused_by="another-vacuum"))
    assert tree(tmp_path) == before
    last = ends(workers)[-1]
    assert (last.end, last.highest) == (TaskEnd.NUMBER_TAKEN, 4)


def test_a_loop_works_off_tasks_and_passes_over_those_of_other_workers(
    workers: Workers, command: CleaningReleased, tmp_path: Path
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    other = savepoint_request(table, at(2))
    broken = issued(1, command, caused_by="not its command")
    bus = workers.bus
    for task in (issued(1, other), broken, issued(2, command), issued(1, command)):
        bus.send([message(task)])
    loop = ExecutorLoop(Cleaner(workers.warehouse, ThreadMap(1), ticking(), QUARANTINE), bus)
    work_off(loop)
    found = events_on(bus, "tidegate.outcomes")
    kinds_found = [type(event) for event in found]
    assert kinds_found == [TaskEnded, CleaningStarted, DirectoriesCleaned, TaskEnded, TaskEnded]
    dead, done, late = ends(workers)
    assert (late.number, late.end, late.highest) == (1, TaskEnd.NUMBER_TAKEN, 2)
    assert (dead.number, dead.end) == (1, TaskEnd.DEAD_LETTERED)
    assert "not its command" in str(dead.message)
    assert (done.number, done.end) == (2, TaskEnd.ANSWERED)
    assert len(bus.records("tidegate.dead-letters")) == 1


def test_savepoints_and_restores_neither_count_nor_remove_the_hidden_folder(
    workers: Workers, tmp_path: Path
) -> None:
    plain = four_commits(tmp_path / "plain/orders", 9)
    claimed = four_commits(tmp_path / "claimed/orders", 9)
    writer = SavepointWriter(workers.warehouse, ThreadMap(1), ticking())
    unwatched = RestoreSettings(watch_seconds=0)
    later = ticking(NOW + timedelta(minutes=1))
    restorer = Restorer(workers.warehouse, ThreadMap(1), later, unwatched)
    (without,) = writer.execute(savepoint_request(plain, at(2)))
    (created,) = workers.do(1, savepoint_request(claimed, at(2)), writer)
    assert isinstance(without, SavepointCreated)
    assert isinstance(created, SavepointCreated)
    assert (created.files, created.bytes) == (without.files, without.bytes)
    *_, restored = restorer.execute(restore_request(plain, at(2)))
    *_, again = workers.do(2, restore_request(claimed, at(2)), restorer)
    assert isinstance(restored, RestoreCompleted)
    assert isinstance(again, RestoreCompleted)
    assert again.files_deleted == restored.files_deleted
    assert data_files(claimed.path) == data_files(plain.path)
    folder = claimed.path / HUDI
    assert {"owner", "tasks"} <= set(names_in(folder))
    assert names_in(folder / "tasks") == ["2", "2.done"]
