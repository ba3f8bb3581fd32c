"""Tasks of a table: numbered, one at a time, each ended once; a request is used once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any
from unittest.mock import patch

import pytest

from support.acid import FIVE_LISTINGS, INSERTS, TABLE, build, names_in
from support.acid import release as release_of_acid
from support.interfering import Interfering
from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    commands_on,
    ended,
    events_on,
    memory_bus,
    message,
    release,
    work_off,
)
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.partitions import BrokerTime
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.requests import USED_FOR
from tidegate.coordinator.running_tasks import MOST_AHEAD
from tidegate.coordinator.tasks import _NEXT, RUNNING_TASK, STOP_ROW
from tidegate.events import (
    CleaningDeferred,
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRemoved,
    CleaningHoldRequested,
    CleaningProgressed,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoRefused,
    CleaningUndoRequested,
    Event,
    LockHold,
    QuarantineRemovalRequested,
    Stopped,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
    TaskOverdue,
    VacuumFinished,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import not_confirmed
from tidegate.events.wire import Wire, command_of
from tidegate.publisher import Message
from tidegate.runtime.bus import Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import REDRIVEN_FROM
from tidegate.runtime.retry import RetryPolicy
from tidegate.tables import task_numbers
from tidegate.tables.claim import AlreadyDone, Task
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

OTHER = "hive.sales.other"
CJK = [chr(code) for code in range(0x4E00, 0x9FFF)]
ASCII = [character for character in map(chr, range(128)) if character.isalnum()]
ANY_PLANE = [chr(code) for code in range(0x10000, 0x110000, 16)]


def vacuum(lock: int, table: str = TABLE) -> VacuumFinished:
    return VacuumFinished(
        table=table,
        location="/wh/t",
        occurred_at=NOON,
        source="compactor",
        kind="minor",
        directories=(f"delta_{lock:07}_{lock:07}",),
        min_write_id=lock,
        max_write_id=lock,
        valid_write_ids="default.t:9:9223372036854775807::",
        own_lock_id=lock,
        locks=(LockHold(lock_id=lock),),
    )


def hold(name: str = "hold-1") -> CleaningHoldRequested:
    return CleaningHoldRequested.model_validate(_request(name))


def removal(name: str = "removal-1") -> CleaningHoldRemovalRequested:
    return CleaningHoldRemovalRequested.model_validate(_request(name))


def undo(name: str, cleaning: str) -> CleaningUndoRequested:
    return CleaningUndoRequested.model_validate(
        _request(name) | {"location": "/wh/t", "cleaning": cleaning}
    )


def withdrawal(request: str) -> WithdrawalRequested:
    return WithdrawalRequested.model_validate(
        _request(f"withdrawal-of-{request}") | {"location": "/wh/t", "request": request}
    )


def _request(name: str) -> dict[str, object]:
    why = {"requested_by": "ana", "reason": "an audit", "source": "ana"}
    return {"table": TABLE, "occurred_at": NOON, "event_id": name} | why


class Killed(BaseException):
    """The process dies."""


class Place:
    """A coordinator on a bus of one partition; `restart` is a successor."""

    def __init__(self) -> None:
        self.bus = memory_bus(partitions=1)
        self.seconds = 0.0
        self.bus.now_ms = lambda: round(1000 * (time() + self.seconds))
        self.loop = self._begun()

    def _begun(self) -> CoordinatorLoop:
        clock = BrokerTime(lambda: self.seconds, lambda: time() + self.seconds)
        return CoordinatorLoop(ReaderGate(), self.bus, clock=clock, tick_seconds=0)

    def send(self, *events: Event) -> None:
        """Publish events one by one, and let the coordinator decide on each."""
        for event in events:
            self.bus.send([message(event)])
            self.run()

    def run(self) -> None:
        while self.loop.step(0):
            pass

    def restart(self) -> None:
        self.loop.close()
        self.loop = self._begun()
        self.run()

    def pass_time(self, **span: float) -> None:
        """Let the broker's time pass without an event."""
        self.seconds += timedelta(**span).total_seconds()
        self.loop.step(0)
        self.loop.step(0)

    def tasks(self) -> list[TaskIssued]:
        """The tasks on the topic, once each."""
        found = events_on(self.bus, "tidegate.tasks")
        return list(
            {task.event_id: task for task in found if isinstance(task, TaskIssued)}.values()
        )

    def outcomes(self, *kinds: type[Event]) -> list[Event]:
        return [
            item for item in events_on(self.bus, "tidegate.outcomes") if isinstance(item, kinds)
        ]


@pytest.fixture
def place() -> Place:
    return Place()


def released(place: Place, *locks: int, table: str = TABLE) -> None:
    for lock in locks:
        place.send(vacuum(lock, table), release(lock, table))


def undone(place: Place, cleaning: str) -> None:
    """The undo of a cleaning is requested, and carried out."""
    place.send(undo("undo-1", cleaning))
    put_back = {"cleaning": cleaning, "directories": (), "files": 0, "bytes": 0}
    about = {"occurred_at": NOON, "source": "cleaner", "duration_ms": 1}
    asked = command_of(place.tasks()[-1], Wire())
    place.send(CleaningUndone.about(asked, **put_back, **about), ended(place.tasks()[-1]))


def random_text(characters: Sequence[str], length: int, seed: int = 0) -> str:
    """Text that no compression makes much smaller."""
    return "".join(random.Random(seed).choices(characters, k=length))  # noqa: S311


@pytest.mark.parametrize(
    ("write_ids", "names"),
    [
        pytest.param(random_text(CJK, 225_000), 1, id="Chinese write ids"),
        pytest.param(random_text(ASCII, 250_000), 1_000, id="ASCII write ids and many names"),
        pytest.param(random_text(ANY_PLANE, 224_000), 1, id="write ids of any characters"),
    ],
)
@pytest.mark.parametrize("is_queued", [False, True])
def test_a_vacuum_that_was_accepted_fits_into_the_rows_of_its_task(
    place: Place, write_ids: str, names: int, *, is_queued: bool
) -> None:
    large = vacuum(2).model_copy(
        update={
            "valid_write_ids": write_ids,
            "directories": tuple(random_text(ASCII, 255, seed=n + 1) for n in range(names)),
        }
    )
    large = VacuumFinished.model_validate(large.model_dump(exclude={"event_id"}))
    if is_queued:
        released(place, 1)
        place.send(large, release(2, TABLE))
        place.send(ended(place.tasks()[0]))
    else:
        place.send(large, release(2, TABLE))
    assert place.bus.records("tidegate.dead-letters") == []
    command = command_of(place.tasks()[-1], Wire())
    assert isinstance(command, CleaningReleased)
    assert command.valid_write_ids == write_ids

    place.restart()  # publishes it again
    first, again = place.bus.records("tidegate.tasks")[-2:]
    assert (first.value, first.headers) == (again.value, again.headers)


def test_the_tasks_of_a_table_are_numbered_and_come_one_after_the_other(place: Place) -> None:
    released(place, 1, 2, 3)
    released(place, 1, table=OTHER)  # another table does not wait for this one
    assert [(task.table, task.number) for task in place.tasks()] == [(TABLE, 1), (OTHER, 1)]

    place.send(ended(place.tasks()[0]))
    assert [task.number for task in place.tasks() if task.table == TABLE] == [1, 2]
    place.restart()
    place.send(ended(place.tasks()[-1]))

    assert [task.number for task in place.tasks() if task.table == TABLE] == [1, 2, 3]
    causes = [it.caused_by for it in commands_on(place.bus) if it.table == TABLE]
    assert causes == [vacuum(lock).event_id for lock in (1, 2, 3)]


@pytest.mark.parametrize(
    "wrong",
    [pytest.param({"number": 2}, id="number"), pytest.param({"caused_by": "another"}, id="id")],
)
def test_only_the_end_of_the_task_under_way_frees_the_next(
    place: Place, wrong: dict[str, object]
) -> None:
    released(place, 1, 2)
    place.send(ended(place.tasks()[0]).model_copy(update={"event_id": "forged"} | wrong))
    assert len(place.tasks()) == 1

    place.send(ended(place.tasks()[0]), ended(place.tasks()[0]))  # the second time of no task
    assert [task.number for task in place.tasks()] == [1, 2]


def test_a_task_under_way_is_published_again_by_the_successor(place: Place) -> None:
    released(place, 1, 2)
    before = len(events_on(place.bus, "tidegate.tasks"))
    place.restart()

    again = events_on(place.bus, "tidegate.tasks")[before:]
    assert again == [place.tasks()[0]]


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("is_stop", [False, True])
def test_a_task_that_was_remembered_and_not_published_is_published_by_the_successor(
    place: Place, deaths: int, *, is_stop: bool
) -> None:
    released(place, 1)
    if not is_stop:
        place.send(ended(place.tasks()[0]))

    def kill_at_a_task(messages: Sequence[Message]) -> None:
        if any(it.topic == "tidegate.tasks" for it in messages):
            raise Killed
        MemoryBus.send(place.bus, messages)

    events = [hold()] if is_stop else [vacuum(2), release(2, TABLE)]
    place.bus.send([message(event) for event in events])
    for _ in range(deaths):
        with patch.object(place.bus, "send", kill_at_a_task), pytest.raises(Killed):
            place.run()
        place.loop.close()
        place.loop = place._begun()
    assert [task.number for task in place.tasks()] == [1]
    records = place.bus.records("tidegate.coordinator.changelog")
    outbox = [it for it in records if (it.key or b"").split(b"\x00")[1:2] == [b"outbox"]]
    assert outbox == [], "the task's own row is enough"

    place.run()
    assert [task.number for task in place.tasks()] == [1, 2]
    assert isinstance(command_of(place.tasks()[1], Wire()), StopRequested) == is_stop
    assert place.outcomes(CleaningHeld) == []


def test_an_exception_after_a_task_was_issued_takes_the_task_back(place: Place) -> None:
    carry_out = CoordinatorLoop._carry_out

    def fail_after(*given: Any) -> None:  # noqa: ANN401 - passed on
        carry_out(*given)
        raise ValueError("a fault")

    place.send(vacuum(1))
    with patch.object(CoordinatorLoop, "_carry_out", fail_after):
        place.send(release(1, TABLE))
    place.restart()
    assert place.tasks() == []

    place.send(release(1, TABLE))
    assert [task.number for task in place.tasks()] == [1]


def test_what_waited_for_the_end_of_a_hold_goes_before_what_that_sets_free(place: Place) -> None:
    released(place, 1, 2)  # the second one is queued
    place.send(hold(), vacuum(3), release(3, TABLE))
    place.send(ended(place.tasks()[0]))  # before its stop
    place.send(removal())

    for _ in range(2):
        place.send(ended(place.tasks()[-1]))
    found = [it.caused_by for it in commands_on(place.bus) if isinstance(it, CleaningReleased)]
    assert found == [vacuum(lock).event_id for lock in (1, 2, 3)]


def test_a_task_whose_number_is_taken_is_issued_above_it(place: Place) -> None:
    released(place, 1)
    place.send(ended(place.tasks()[0], end=TaskEnd.NUMBER_TAKEN, highest=41))

    assert [task.number for task in place.tasks()] == [1, 42]
    assert len({task.caused_by for task in place.tasks()}) == 1


def test_a_number_that_the_coordinator_gave_itself_does_not_end_the_task(place: Place) -> None:
    released(place, 1)
    place.send(hold())
    cleaning, stop = place.tasks()
    place.send(ended(cleaning, end=TaskEnd.NUMBER_TAKEN, highest=stop.number))

    assert place.outcomes(CleaningHeld) == []  # the stop's end says how far the cleaning is
    place.send(ended(stop, stopped=Stopped.BEGUN))
    assert len(place.outcomes(CleaningHeld)) == 1


def test_a_task_below_a_stop_s_lost_number_goes_on_although_the_stop_is_gone(place: Place) -> None:
    released(place, 1)
    place.send(hold())
    cleaning, stop = place.tasks()
    place.send(removal(), ended(stop, end=TaskEnd.NUMBER_TAKEN, highest=41))
    place.send(ended(cleaning, end=TaskEnd.NUMBER_TAKEN, highest=41))

    assert [task.number for task in place.tasks()] == [1, 2, 42]
    assert place.tasks()[-1].caused_by == cleaning.caused_by


@pytest.mark.parametrize("highest", [MOST_AHEAD + 1, 2**62 - 1])
def test_a_number_that_no_coordinator_can_have_reached_is_not_continued(
    place: Place, highest: int
) -> None:
    released(place, 1, 2)
    place.send(ended(place.tasks()[0], end=TaskEnd.NUMBER_TAKEN, highest=highest))
    assert [task.number for task in place.tasks()] == [1]

    place.send(ended(place.tasks()[0]).model_copy(update={"event_id": "the-real-one"}))
    assert [task.number for task in place.tasks()] == [1, 2]


def test_a_request_whose_task_met_a_later_number_may_have_begun(place: Place) -> None:
    place.send(undo("undo-1", "c"))
    place.send(ended(place.tasks()[0], end=TaskEnd.NUMBER_TAKEN, highest=41))
    place.send(withdrawal("undo-1"))

    [refused] = place.outcomes(WithdrawalRefused)
    assert isinstance(refused, WithdrawalRefused)
    assert refused.reason == Reason.TOO_LATE


def test_a_dead_letter_lets_the_next_task_go_and_is_issued_again_once_redriven(
    place: Place,
) -> None:
    released(place, 1, 2)
    first = place.tasks()[0]
    place.send(ended(first, end=TaskEnd.DEAD_LETTERED, message="the store is away"))
    place.restart()
    place.send(ended(first, end=TaskEnd.REDRIVEN), ended(first, end=TaskEnd.REDRIVEN))
    assert [task.number for task in place.tasks()] == [1, 2]

    place.send(ended(place.tasks()[-1]))

    assert [task.number for task in place.tasks()] == [1, 2, 3]
    assert place.tasks()[-1].caused_by == first.caused_by
    place.send(ended(place.tasks()[-1]))
    assert len(place.tasks()) == 3


def test_a_dead_letter_of_which_a_copy_was_processed_is_not_issued_again(place: Place) -> None:
    released(place, 1)
    [task] = place.tasks()
    place.send(ended(task, end=TaskEnd.DEAD_LETTERED), ended(task))

    place.send(ended(task, end=TaskEnd.REDRIVEN))

    assert place.tasks() == [task]


def test_a_redriven_cleaning_that_was_undone_since_is_not_issued_again(place: Place) -> None:
    released(place, 1)
    [task] = place.tasks()
    place.send(ended(task, end=TaskEnd.DEAD_LETTERED))  # perhaps half way
    undone(place, command_of(task, Wire()).event_id)
    place.send(ended(task, end=TaskEnd.REDRIVEN))

    assert [it for it in commands_on(place.bus) if isinstance(it, CleaningReleased)] == [
        command_of(task, Wire())
    ]


def test_a_broker_whose_clock_was_a_year_ahead_does_not_stop_what_comes_after_it(
    place: Place,
) -> None:
    released(place, 1)
    [task] = place.tasks()
    own = place.bus.now_ms
    place.bus.now_ms = lambda: own() + timedelta(days=365) // timedelta(milliseconds=1)
    place.send(undo("undo-1", "c"))
    cleaning = command_of(task, Wire())
    assert isinstance(cleaning, CleaningReleased)
    deferred = not_confirmed(cleaning, Reason.SECOND_SOURCE_AWAY, "away", NOON)
    place.send(deferred, ended(task))
    place.bus.now_ms = own
    place.send(ended(place.tasks()[-1]))

    place.send(hold(), removal("removal-1"))
    assert len(place.outcomes(CleaningHeld, CleaningHoldRemoved)) == 2  # not refused as too old
    place.pass_time(days=3)
    assert place.tasks()[-1].caused_by == task.caused_by  # it is tried again


def test_a_redriven_task_that_is_still_under_way_is_published_again(place: Place) -> None:
    released(place, 1, 2)
    place.send(ended(place.tasks()[0], end=TaskEnd.REDRIVEN))  # its worker could not decode it

    under_way = place.tasks()
    assert events_on(place.bus, "tidegate.tasks") == under_way * 2
    assert [task.number for task in under_way] == [1]
    other = {"event_id": "forged", "caused_by": "another", "end": TaskEnd.REDRIVEN}
    place.send(ended(under_way[0]).model_copy(update=other))
    assert len(events_on(place.bus, "tidegate.tasks")) == 2


def test_a_task_without_an_outcome_is_published_again_hourly_with_an_alarm(place: Place) -> None:
    released(place, 1)
    [task] = place.tasks()
    place.pass_time(minutes=59)
    assert place.outcomes(TaskOverdue) == []

    place.pass_time(minutes=2)
    [alarm] = place.outcomes(TaskOverdue)
    assert (alarm.caused_by, alarm.location) == (task.event_id, "/wh/t")
    assert events_on(place.bus, "tidegate.tasks") == [task, task]

    place.pass_time(minutes=30)
    assert len(place.outcomes(TaskOverdue)) == 1
    place.pass_time(minutes=31)
    assert len(place.outcomes(TaskOverdue)) == 2
    assert {it.event_id for it in place.outcomes(TaskOverdue)} == {alarm.event_id}

    place.send(ended(task))
    place.pass_time(hours=5)
    assert len(place.outcomes(TaskOverdue)) == 2


def test_a_task_that_progresses_is_not_overdue(place: Place) -> None:
    released(place, 1)
    [task] = place.tasks()
    place.pass_time(minutes=50)
    place.send(
        CleaningProgressed(
            table=TABLE,
            location="/wh/t",
            occurred_at=NOON,
            source="cleaner",
            caused_by=task.caused_by,
            directories_done=1,
            directories_total=2,
            files_done=1,
            files_total=2,
        )
    )
    place.pass_time(minutes=50)
    assert place.outcomes(TaskOverdue) == []
    place.pass_time(minutes=11)
    assert len(place.outcomes(TaskOverdue)) == 1


def test_a_request_is_used_once_however_often_its_bytes_are_published(place: Place) -> None:
    place.send(hold(), removal(), hold("hold-2"), removal())  # the last is a copy
    released(place, 1)
    assert place.tasks() == []  # the later hold stands

    place.restart()
    place.send(removal("removal-2"))
    place.send(ended(place.tasks()[0]), undo("undo-1", "c"), undo("undo-1", "c"))
    place.send(ended(place.tasks()[-1]))
    assert [task.kind for task in place.tasks()] == ["CleaningReleased", "CleaningUndoRequested"]


def test_a_request_that_is_older_than_what_is_remembered_is_refused(place: Place) -> None:
    begin = 1_000_000_000_000
    later = USED_FOR + timedelta(minutes=1)
    place.bus.now_ms = lambda: begin
    place.send(undo("undo-1", "c"))
    place.send(ended(place.tasks()[0]))
    place.bus.now_ms = lambda: begin + later // timedelta(milliseconds=1)
    place.send(undo("undo-2", "c"))
    place.send(ended(place.tasks()[-1]))
    place.bus.now_ms = lambda: begin
    place.send(undo("undo-1", "c"))

    assert [task.caused_by for task in place.tasks()] == ["undo-1", "undo-2"]
    [refused] = place.outcomes(CleaningUndoRefused)
    assert isinstance(refused, CleaningUndoRefused)
    assert refused.reason == Reason.REQUEST_TOO_OLD


@pytest.mark.parametrize("how", [Stopped.BEGUN, Stopped.NOT_BEGUN])
def test_a_hold_stops_the_cleaning_that_is_under_way_and_is_then_confirmed(
    place: Place, how: Stopped
) -> None:
    released(place, 1, 2)
    place.send(hold())
    place.restart()
    cleaning, stop = place.tasks()
    assert place.outcomes(CleaningHeld, TaskEnded) == []
    command = command_of(stop, Wire())
    assert isinstance(command, StopRequested)
    assert (command.stops, command.command) == (cleaning.number, cleaning.caused_by)
    assert (command.kind, command.caused_by) == ("CleaningReleased", cleaning.event_id)

    place.send(ended(stop, stopped=how))
    over, end, held = place.outcomes(CleaningHeld, TaskEnded)
    assert (over, type(held), held.caused_by) == (ended(stop, stopped=how), CleaningHeld, "hold-1")
    assert isinstance(end, TaskEnded)
    assert (end.number, end.end, end.caused_by) == (1, TaskEnd.SUPERSEDED, cleaning.event_id)
    assert len(place.tasks()) == 2  # both cleanings wait for the end of the hold

    place.send(ended(cleaning), ended(stop, stopped=how))  # late ones change nothing
    place.send(removal())
    assert [task.caused_by for task in place.tasks()[2:]] == [cleaning.caused_by]
    place.send(ended(place.tasks()[-1]))
    assert [task.number for task in place.tasks()] == [1, 2, 3, 4]


def test_a_cleaning_that_ends_before_its_stop_confirms_the_hold(place: Place) -> None:
    released(place, 1, 2)
    place.send(hold(), hold("hold-2"))
    cleaning, stop = place.tasks()  # the second hold issues no second stop
    place.send(ended(cleaning))
    assert [outcome.caused_by for outcome in place.outcomes(CleaningHeld)] == ["hold-1", "hold-2"]

    place.send(ended(stop, stopped=Stopped.DONE), removal())
    place.restart()
    assert [task.number for task in place.tasks()] == [1, 2, 3]
    assert events_on(place.bus, "tidegate.tasks")[-1].event_id == place.tasks()[-1].event_id


@pytest.mark.parametrize("how", [{}, {"end": TaskEnd.DEAD_LETTERED}], ids=["refused", "failed"])
def test_a_hold_waits_for_a_cleaning_that_can_not_be_stopped(
    place: Place, how: dict[str, TaskEnd]
) -> None:
    released(place, 1)
    place.send(hold())
    cleaning, stop = place.tasks()
    place.send(ended(stop, **how))
    assert place.outcomes(CleaningHeld) == []
    assert len(place.tasks()) == 2

    place.send(ended(cleaning))
    assert len(place.outcomes(CleaningHeld)) == 1


def test_a_stopped_cleaning_that_was_undone_does_not_go_on_after_the_hold(place: Place) -> None:
    released(place, 1, 2)
    cleaning = command_of(place.tasks()[0], Wire())
    place.send(hold())
    place.send(ended(place.tasks()[-1], stopped=Stopped.BEGUN))
    undone(place, cleaning.event_id)
    place.send(removal())

    causes = [it.caused_by for it in commands_on(place.bus) if isinstance(it, CleaningReleased)]
    assert causes == [vacuum(1).event_id, vacuum(2).event_id]


def test_a_quarantine_that_a_cleaning_goes_on_to_fill_is_not_removed_right_behind_it(
    place: Place,
) -> None:
    """Its time was over while people held the table, and begins anew."""

    def started() -> CleaningStarted:
        found = {"mode": "quarantine", "keep_ms": 60_000, "files": 1, "bytes": 1}
        about = {"source": "cleaner", "occurred_at": NOON, "directories": ("delta_1_1",)}
        return CleaningStarted.about(command_of(place.tasks()[-1], Wire()), **found, **about)

    released(place, 1)
    place.send(started(), hold())
    place.send(ended(place.tasks()[-1], stopped=Stopped.BEGUN))
    place.pass_time(minutes=59)
    place.send(removal())
    place.pass_time(hours=1)  # the removal is requested before the cleaning says that it goes on
    place.send(started(), ended(place.tasks()[-1]))

    kinds = [type(it) for it in commands_on(place.bus)]
    assert kinds == [CleaningReleased, StopRequested, CleaningReleased]
    place.pass_time(minutes=2)
    assert type(commands_on(place.bus)[-1]) is QuarantineRemovalRequested


def test_a_stop_whose_number_is_taken_is_issued_above_it(place: Place) -> None:
    released(place, 1)
    place.send(hold())
    place.send(ended(place.tasks()[-1], end=TaskEnd.NUMBER_TAKEN, highest=41))

    assert [task.number for task in place.tasks()] == [1, 2, 42]
    assert [task.kind for task in place.tasks()[1:]] == ["StopRequested"] * 2


def test_a_redriven_task_does_not_end_the_stop_of_another(place: Place) -> None:
    released(place, 1, 2)
    place.send(ended(place.tasks()[0], end=TaskEnd.DEAD_LETTERED, message="away"), hold())
    _, cleaning, stop = place.tasks()
    place.send(ended(place.tasks()[0], end=TaskEnd.REDRIVEN))
    place.send(ended(stop, stopped=Stopped.BEGUN))

    assert [item.number for item in place.outcomes(TaskEnded) if isinstance(item, TaskEnded)][
        -1:
    ] == [cleaning.number]
    assert len(place.outcomes(CleaningHeld)) == 1


def test_a_hold_that_was_removed_before_it_was_confirmed_is_answered_in_order(place: Place) -> None:
    released(place, 1)
    place.send(hold(), removal())
    place.send(ended(place.tasks()[-1], stopped=Stopped.BEGUN))

    kinds = [type(item) for item in place.outcomes(CleaningHeld, CleaningHoldRemoved)]
    assert kinds == [CleaningHeld, CleaningHoldRemoved]


def test_an_undo_goes_on_while_the_table_is_held_and_before_waiting_cleanings(place: Place) -> None:
    place.send(hold())
    released(place, 1)
    place.send(undo("undo-1", "c"))

    assert [task.kind for task in place.tasks()] == ["CleaningUndoRequested"]


def test_an_outcome_counts_only_while_its_task_is_under_way(place: Place) -> None:
    """A forged CleaningDeferred for a vacuum that never existed was released, and signed."""
    released(place, 1)
    [command] = commands_on(place.bus)
    assert isinstance(command, CleaningReleased)
    forged = command.model_copy(update={"event_id": "never", "min_write_id": 7})
    for deferral in (_deferral(forged), _deferral(command)):
        place.send(deferral)
    place.send(ended(place.tasks()[0]), _deferral(command))  # the last one is late
    rows = place.loop._owned[0].store
    deferred = rows.all("select body from deferred")

    assert len(deferred) == 1
    assert CleaningDeferred.model_validate_json(deferred[0][0]).caused_by == command.event_id


def _deferral(command: CleaningReleased) -> CleaningDeferred:
    return not_confirmed(command, Reason.NOT_CONFIRMED, "it is open", NOON)


def test_no_statement_scans_a_hot_table(place: Place) -> None:
    released(place, 1)
    store = place.loop._owned[0].store
    for sql, parameters in (
        (_NEXT, (TABLE, 1)),
        (RUNNING_TASK, (TABLE,)),
        (STOP_ROW, (TABLE,)),
        ("select 1 from used where tbl = ? and id = ?", (TABLE, 1)),
        ("select max(at) from used indexed by used_at", ()),
    ):
        plan = " ".join(row[3] for row in store.all(f"explain query plan {sql}", *parameters))
        assert "SCAN" not in plan
        assert "TEMP B-TREE" not in plan


class Works(Place):
    """The coordinator and a cleaner, until nothing is left to do."""

    def __init__(self, lake: Path) -> None:
        super().__init__()
        warehouse = Warehouse(WarehouseRoots.of(str(lake)))
        cleaner = Cleaner(warehouse, ThreadMap(1), lambda: NOON)
        self.cleaner = ExecutorLoop(cleaner, self.bus, retries=RetryPolicy(1))

    def run(self) -> None:
        for _ in range(4):
            super().run()
            work_off(self.cleaner)


def test_a_worker_carries_out_the_tasks_of_a_table_and_leaves_its_claim(tmp_path: Path) -> None:
    works, table = Works(tmp_path), build(tmp_path / "t", FIVE_LISTINGS[1].directories)
    before = release_of_acid(str(table))
    for lock in (1, 2):
        fields = before.model_dump(include=set(VacuumFinished.model_fields) - {"event_id"})
        more = {"own_lock_id": lock, "locks": ({"lock_id": lock},), "caused_by": None}
        works.send(VacuumFinished.model_validate(fields | more), release(lock, TABLE))

    assert set(INSERTS) & set(names_in(table)) == set()
    assert [task.number for task in works.tasks()] == [1, 2]
    ends = [item for item in works.outcomes(TaskEnded) if isinstance(item, TaskEnded)]
    assert [(item.number, item.end) for item in ends] == [(1, "answered"), (2, "answered")]
    assert names_in(table / ".tidegate" / "tasks") == ["2", "2.done"]
    assert works.bus.records("tidegate.dead-letters") == []

    copies = [message_of(record) for record in works.bus.records("tidegate.tasks")]
    known = len(works.bus.records("tidegate.outcomes"))
    works.bus.send(copies[:1])  # a copy of the first: the number on the table is higher
    works.run()
    [said] = events_on(works.bus, "tidegate.outcomes")[known:]
    assert isinstance(said, TaskEnded)
    assert (said.end, said.highest) == (TaskEnd.NUMBER_TAKEN, 2)
    assert [task.number for task in works.tasks()] == [1, 2]


def test_a_dead_letter_of_a_worker_is_issued_again_once_it_is_redriven(tmp_path: Path) -> None:
    works, table = Works(tmp_path), build(tmp_path / "t", FIVE_LISTINGS[1].directories)
    command = release_of_acid(str(table))
    bucket = table / INSERTS[0] / "bucket_00000"
    fields = command.model_dump(include=set(VacuumFinished.model_fields) - {"event_id"})
    more = {"own_lock_id": 1, "locks": ({"lock_id": 1},), "caused_by": None}
    with patch("tidegate.cleaning.executor.remove_directories", side_effect=OSError("no space")):
        works.send(VacuumFinished.model_validate(fields | more), release(1, TABLE))
    assert bucket.exists()
    [found] = works.bus.records("tidegate.dead-letters")
    [end] = [item for item in works.outcomes(TaskEnded) if isinstance(item, TaskEnded)]
    assert end.end is TaskEnd.DEAD_LETTERED

    [task] = works.bus.records("tidegate.tasks")
    redriven = message_of(task)
    works.bus.send([redriven._replace(headers=(*redriven.headers, (REDRIVEN_FROM, b"dl-1")))])
    works.run()

    assert not bucket.exists()
    assert found.value == task.value
    assert [task.number for task in works.tasks()] == [1, 2]


def test_a_stalled_cleaner_removes_nothing_of_a_held_table_once_another_one_gave_its_task_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was under way then, so the hold was confirmed without a stop."""
    monkeypatch.setattr(task_numbers, "FRESH_SECONDS", -1.0)  # every call comes after a pause
    works, table = Works(tmp_path), build(tmp_path / "t", FIVE_LISTINGS[1].directories)
    command = release_of_acid(str(table))
    fields = command.model_dump(include=set(VacuumFinished.model_fields) - {"event_id"})
    more = {"own_lock_id": 1, "locks": ({"lock_id": 1},), "caused_by": None}

    def meanwhile(name: str) -> None:
        """The group has moved the partition; the new owner's attempts are used up."""
        del name
        with patch("tidegate.cleaning.executor.remove_directories", side_effect=OSError("full")):
            works.run()
        works.send(hold())
        assert len(works.outcomes(CleaningHeld)) == 1

    vacuumed = VacuumFinished.model_validate(fields | more)
    works.bus.send([message(vacuumed), message(release(1, TABLE))])
    Place.run(works)
    [issued] = works.tasks()
    stalled = Cleaner(Interfering(tmp_path, after=meanwhile), ThreadMap(1), lambda: NOON)
    deployment = f"{works.bus.cluster_id()}/tidegate"
    claim = stalled.claim(command, Task(1, issued.event_id, TABLE, deployment))
    with pytest.raises(AlreadyDone):
        list(stalled.execute(command, claim))

    assert len(set(INSERTS) & set(names_in(table))) == len(INSERTS) - 1


def message_of(record: Record) -> Message:
    return Message(record.partition.topic, record.key, record.value, tuple(record.headers))
