"""The changelog is lost: the rows are rebuilt from the inputs, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from support import signing
from support.acid import FIVE_LISTINGS, INSERTS, TABLE, build
from support.acid import release as release_of_acid
from support.memory_bus import MemoryBus
from support.quarantined import quarantining, removal_of, undo_of, visible
from support.samples import NOON, ended, events_on, memory_bus, message, release, tasks_on, work_off
from tidegate.coordinator.holds import holds
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.quarantines import quarantines
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import (
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    DirectoriesCleaned,
    Event,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreRequested,
    SavepointCreated,
    SavepointRequested,
    SavepointsCheckRequested,
    TaskEnd,
    TaskEnded,
    VacuumFinished,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.events.reasons import Reason
from tidegate.events.wire import Wire, command_of
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Watermarks
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import RetryPolicy

ORDERS = "lake.sales.orders"


class Place:
    """A coordinator and a cleaner, until nothing is left to do."""

    def __init__(self, lake: Path) -> None:
        self.bus: MemoryBus = memory_bus(partitions=1)
        self.loop = CoordinatorLoop(ReaderGate(), self.bus)
        self.cleaner = ExecutorLoop(quarantining(lake), self.bus, retries=RetryPolicy(1))

    def send(self, *events: Event) -> None:
        for event in events:
            self.bus.send([message(event)])
            self.run()

    def run(self) -> None:
        for _ in range(5):
            while self.loop.step(0):
                pass
            work_off(self.cleaner)

    def lose_the_changelog(self, until: Callable[[], bool] | None = None) -> None:
        """What the remedy of the doctor does; `until` this is true the coordinator runs then."""
        self.loop.close()
        self.bus.recreate("tidegate.coordinator.changelog")
        self.bus.committed["tidegate.coordinator"].clear()
        self.loop = CoordinatorLoop(ReaderGate(), self.bus)
        if until is None:
            self.run()
            return
        while not (self.loop._owned and until()):
            self.loop.step(0)
        self.loop.close()

    def outcomes(self) -> list[Event]:
        return events_on(self.bus, "tidegate.outcomes")

    def left(self, kind: str) -> list[object]:
        return self.loop._owned[0].store.all(f"select * from {kind}")  # noqa: S608


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def vacuum(command: CleaningReleased, lock: int) -> VacuumFinished:
    fields = command.model_dump(include=set(VacuumFinished.model_fields) - {"event_id"})
    more = {"own_lock_id": lock, "locks": ({"lock_id": lock},), "caused_by": None}
    return VacuumFinished.model_validate(fields | more)


def cleaned(place: Place, tmp_path: Path, *locks: int) -> CleaningReleased:
    """The vacuums of a table are cleaned; return the first command."""
    released = release_of_acid(str(build(tmp_path / "t", FIVE_LISTINGS[1].directories)))
    for lock in locks:
        place.send(vacuum(released, lock), release(lock, TABLE))
    command = command_of(tasks_on(place.bus)[0], Wire())
    assert isinstance(command, CleaningReleased)
    return command


def test_tasks_continue_above_the_numbers_on_the_table(place: Place, tmp_path: Path) -> None:
    cleaned(place, tmp_path, 1, 2, 3)
    assert [task.number for task in tasks_on(place.bus)] == [1, 2, 3]
    place.lose_the_changelog()

    assert place.left("task") == place.left("queued") == []
    ends = [it for it in place.outcomes() if isinstance(it, TaskEnded)]
    assert max(it.number for it in ends if it.end is TaskEnd.ANSWERED) > 3
    place.send(vacuum(release_of_acid(str(tmp_path / "t")), 4), release(4, TABLE))
    assert place.left("task") == []


def test_a_quarantine_is_known_again_with_its_time(place: Place, tmp_path: Path) -> None:
    command = cleaned(place, tmp_path, 1)
    [before] = quarantines(place.loop._owned[0].store)
    place.lose_the_changelog()

    [again] = quarantines(place.loop._owned[0].store)
    assert (again.cleaning, again.sizes) == (command.event_id, before.sizes)
    assert abs(again.due - before.due) <= 1000 * 60


def test_a_cleaning_that_was_undone_is_not_repeated(place: Place, tmp_path: Path) -> None:
    command = cleaned(place, tmp_path, 1)
    place.send(undo_of(command))
    [*_] = quarantining(tmp_path).execute(removal_of(command))  # the mark of the undo goes, too
    assert set(INSERTS) <= set(visible(tmp_path / "t"))
    place.lose_the_changelog()

    assert set(INSERTS) <= set(visible(tmp_path / "t"))
    assert [type(it) for it in place.outcomes()].count(CleaningUndone) == 1
    assert [type(it) for it in place.outcomes()].count(DirectoriesCleaned) == 1


@pytest.mark.parametrize("also_gone", [(), ("vacuums",)], ids=["the request", "all but outcomes"])
def test_a_hold_that_its_topic_has_forgotten_is_known_from_its_outcome(
    place: Place, also_gone: tuple[str, ...]
) -> None:
    """Requests are kept for thirty days, as vacuums are, a hold until it is removed."""
    one, other = (release_of_acid("/wh/t", caused_by=name) for name in ("one", "other"))
    about = {"requested_by": "ana", "reason": "an audit", "source": "ana", "occurred_at": NOON}
    hold, back = (
        kind.model_validate(about | {"table": TABLE, "event_id": kind.__name__})
        for kind in (CleaningHoldRequested, CleaningHoldRemovalRequested)
    )
    place.send(vacuum(one, 1), hold)
    for topic in ("requests", *also_gone):
        place.bus.log(Partition(f"tidegate.{topic}", 0)).clear()
    place.lose_the_changelog()

    place.send(release(1, TABLE), vacuum(other, 2), release(2, TABLE))
    assert tasks_on(place.bus) == []
    [held] = holds(place.loop._owned[0].store)
    assert (held[0], held[1].requested_by, held[1].reason) == (TABLE, "ana", "an audit")

    place.send(back)
    assert tasks_on(place.bus) != []
    place.lose_the_changelog()
    assert [*holds(place.loop._owned[0].store)] == []


def test_a_hold_is_not_removed_again_with_the_outcome_of_an_earlier_removal(place: Place) -> None:
    """Where the vacuums of before were deleted after their time, but no row was lost."""
    first = {"requested_by": "ana", "reason": "an audit", "source": "ana", "occurred_at": NOON}

    def decided(kind: type[Event], name: str) -> None:
        send(kind.model_validate(first | {"table": TABLE, "event_id": name}))

    def send(*events: Event) -> None:
        for event in events:
            place.bus.send([message(event)])
            place.loop.step(0)

    vacuums = Partition("tidegate.vacuums", 0)
    place.loop.step(0)
    place.loop._subscription.pause([Partition("tidegate.outcomes", 0)])  # they come too late
    decided(CleaningHoldRequested, "h-1")
    decided(CleaningHoldRemovalRequested, "r-1")
    send(vacuum(release_of_acid("/wh/t", caused_by="one"), 1), release(1, TABLE))
    decided(CleaningHoldRequested, "h-2")  # it is confirmed once the cleaning is stopped
    assert len(tasks_on(place.bus)) == 2
    place.loop.close()
    watermarks, deleted = place.bus.watermarks, len(place.bus.log(vacuums))

    def without_deleted(partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        found = watermarks(partitions)
        if vacuums in found:
            found[vacuums] = replace(found[vacuums], first=deleted)
        return found

    place.bus.watermarks = without_deleted  # type: ignore[method-assign]
    place.bus.send([message(vacuum(release_of_acid("/wh/t", caused_by="other"), 2))])
    place.loop = CoordinatorLoop(ReaderGate(), place.bus)
    while place.loop.step(0):
        pass

    [(table, held, _)] = holds(place.loop._owned[0].store)
    assert (table, held.event_id) == (TABLE, "h-2")


def _request(name: str) -> dict[str, object]:
    about = {"table": ORDERS, "location": "/lake/orders", "occurred_at": NOON, "source": "cli"}
    return about | {"event_id": name, "requested_by": "ana", "reason": "a bad load"}


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_restore_that_is_complete_is_neither_repeated_nor_refused(
    place: Place,
    is_approved: bool,  # noqa: FBT001
) -> None:
    request = RestoreRequested.model_validate(_request("r-1") | {"savepoint": "20261121120000001"})
    place.send(request)
    approval = RestoreApproved.about(
        request,
        event_id="a-1",
        occurred_at=NOON,
        source="cli",
        request="r-1",
        plan_id="p",
        approved_by="ben",
        reason="it is right",
    )
    if is_approved:
        plan = {"savepoint": request.savepoint, "plan_id": "p", "instants": ()}
        until = {"expires_at": NOON + timedelta(days=10_000), "files": 0, "bytes": 0}
        about = {"occurred_at": NOON, "source": "restorer"}
        place.send(RestoreAwaitingApproval.about(request, **plan, **until, **about))
        place.send(ended(tasks_on(place.bus)[-1]), approval)
    done = {"savepoint": request.savepoint, "restore_instant": "20261121130000000"}
    counts = {"instants": (), "files_deleted": 0, "duration_ms": 1}
    about = {"occurred_at": NOON, "source": "restorer", "approval": "a-1" if is_approved else None}
    place.send(RestoreCompleted.about(request, **done, **counts, **about))
    place.send(ended(tasks_on(place.bus)[-1]))
    late = WithdrawalRequested.model_validate(_request("w-1") | {"request": "r-1"})
    place.send(late)
    assert isinstance(place.outcomes()[-1], WithdrawalRefused)
    before = place.outcomes(), tasks_on(place.bus)

    place.lose_the_changelog()

    assert (place.outcomes(), tasks_on(place.bus)) == before
    place.send(request, late, *([approval] if is_approved else []))  # copies
    assert (place.outcomes(), tasks_on(place.bus)) == before


@pytest.mark.parametrize("name", ["ana", "coordinator"])
def test_a_savepoint_that_was_made_is_not_requested_again_whatever_its_requester_s_name(
    place: Place, name: str
) -> None:
    fields = _request("s-1") | {"requested_by": name, "comment": ""}
    fields.pop("reason")
    request = SavepointRequested.model_validate(fields)
    place.send(request)
    about = {"occurred_at": NOON, "source": "savepoint-writer", "instant": "20261121120000001"}
    made = SavepointCreated.about(request, **about, partitions=1, files=1, duration_ms=1)
    place.send(made.to(request), ended(tasks_on(place.bus)[-1]))
    place.lose_the_changelog()

    assert [it.caused_by for it in events_on(place.bus, "tidegate.tasks")] == ["s-1"]


def test_the_savepoints_of_a_policy_are_not_remembered_as_requests(place: Place) -> None:
    """There may be as many as commits."""
    check = SavepointsCheckRequested.model_validate(
        {"table": ORDERS, "location": "/lake/orders", "occurred_at": NOON, "caused_by": "c-1"}
        | {"source": "coordinator", "attempt": 1}
    )
    about = {"occurred_at": NOON, "source": "savepoint-writer", "instant": "20261121120000001"}
    made = SavepointCreated.about(check, **about, partitions=1, files=1, duration_ms=1)
    place.send(made.to(check))
    place.lose_the_changelog()

    assert place.left("used") == []


def test_a_restore_without_an_outcome_is_issued_again(place: Place) -> None:
    place.send(
        RestoreRequested.model_validate(_request("r-1") | {"savepoint": "20261121120000001"})
    )
    place.lose_the_changelog()

    assert [it.caused_by for it in events_on(place.bus, "tidegate.tasks")] == ["r-1", "r-1"]


def test_what_was_requested_before_may_have_begun_and_can_not_be_withdrawn(place: Place) -> None:
    savepoint = {"savepoint": "20261121120000001"}
    place.send(RestoreRequested.model_validate(_request("r-1") | savepoint))
    place.send(ended(tasks_on(place.bus)[-1], end=TaskEnd.DEAD_LETTERED))  # perhaps half way
    place.lose_the_changelog()

    place.send(WithdrawalRequested.model_validate(_request("w-1") | {"request": "r-1"}))

    [refused] = [it for it in place.outcomes() if isinstance(it, WithdrawalRefused)]
    assert refused.reason == Reason.TOO_LATE
    assert tasks_on(place.bus)[-1].caused_by == "r-1"


def test_that_a_request_may_have_begun_is_known_also_if_the_coordinator_died_half_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = {"savepoint": "20261121120000001"}
    for name in ("r-1", "r-2"):
        place.send(RestoreRequested.model_validate(_request(name) | savepoint))
    place.send(ended(tasks_on(place.bus)[-1], end=TaskEnd.DEAD_LETTERED))
    monkeypatch.setattr("tidegate.coordinator.loop.CHUNK", 1)
    monkeypatch.setattr("tidegate.coordinator.loop.BATCH_SECONDS", 0)
    place.lose_the_changelog(until=lambda: place.left("task") != [])  # the first request was read
    place.loop = CoordinatorLoop(ReaderGate(), place.bus)
    place.run()

    place.send(WithdrawalRequested.model_validate(_request("w-1") | {"request": "r-2"}))
    [refused] = [it for it in place.outcomes() if isinstance(it, WithdrawalRefused)]
    assert refused.reason == Reason.TOO_LATE


def test_a_quarantine_is_known_by_the_cleanings_end_or_by_a_redriven_start(
    place: Place, tmp_path: Path
) -> None:
    command = release_of_acid(str(tmp_path / "t"))
    fields = {"occurred_at": NOON, "source": "cleaner", "directories": ("delta_1_1",)}
    sizes = {"files": 4, "bytes": 900, "mode": "quarantine", "keep_ms": 60_000}
    start = CleaningStarted.about(command, **fields, **sizes)
    place.send(start)  # redriven, when its task had ended
    assert [it.cleaning for it in quarantines(place.loop._owned[0].store)] == [command.event_id]
    shorter = start.model_copy(update={"event_id": "forged", "keep_ms": 0})
    [before] = quarantines(place.loop._owned[0].store)
    place.send(shorter)
    [after] = quarantines(place.loop._owned[0].store)
    assert after.due >= before.due

    other = release_of_acid(str(tmp_path / "t"), caused_by="another")
    place.send(DirectoriesCleaned.about(other, **fields, **sizes, duration_ms=1))
    assert {it.cleaning for it in quarantines(place.loop._owned[0].store)} == {
        command.event_id,
        other.event_id,
    }


def test_a_late_outcome_counts_only_if_it_is_signed_where_signatures_are_required() -> None:
    bus = memory_bus(partitions=1)
    loop, _ = signing.services(signing.settings(signing.entry()), bus, signing.Obeying())
    start = CleaningStarted.model_validate(
        {"table": TABLE, "location": "/wh/t", "occurred_at": NOON, "source": "cleaner"}
        | {"caused_by": "c-1", "directories": ("delta_1_1",), "files": 4, "bytes": 900}
        | {"mode": "quarantine", "keep_ms": 60_000}
    )

    def known(sent: Message) -> list[str]:
        bus.send([sent])
        while loop.step(0):
            pass
        return [it.cleaning for it in quarantines(loop._owned[0].store)]

    assert known(message(start)) == known(signing.signed(start, signing.EVE)) == []
    assert bus.records("tidegate.dead-letters") == []
    assert known(signing.signed(start, signing.COORDINATOR)) == ["c-1"]
