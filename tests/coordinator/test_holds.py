"""Holds of people, unconfirmed cleanings, expired locks and quarantines, in the gate. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import pytest

from support.acid import IDS_1_TO_3, IDS_1_TO_4, MINOR_3, MINOR_4, NOON, TABLE
from support.rows import Rows
from tidegate.coordinator.memory import Limits
from tidegate.coordinator.quarantines import Quarantine, quarantines
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import (
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRemoved,
    CleaningHoldRequested,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Command,
    Event,
    LockReleased,
    Outcome,
    QuarantineRemovalRequested,
    QuarantineRemoved,
    ReleaseReason,
    VacuumFinished,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import AGAIN, not_confirmed

HOUR = timedelta(hours=1)


def vacuum(
    *locks: int, made: str = MINOR_3, snapshot: str = IDS_1_TO_3, reader: int | None = None
) -> VacuumFinished:
    """A vacuum that saw these locks; the first is its own, the others are of the reader."""
    return VacuumFinished.model_validate(
        {
            "table": TABLE,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (made,),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": snapshot,
            "own_lock_id": locks[0],
            "locks": [{"lock_id": locks[0]}]
            + [{"lock_id": lock, "transaction_id": reader} for lock in locks[1:]],
        }
    )


def released(
    lock: int | None = None, reason: ReleaseReason = ReleaseReason.UNLOCKED, txn: int | None = None
) -> LockReleased:
    return LockReleased(
        table=TABLE,
        location="/wh/t",
        occurred_at=NOON,
        source="bridge",
        lock_id=lock,
        transaction_id=txn,
        reason=reason,
    )


def hold(request: str = "hold-1") -> CleaningHoldRequested:
    return CleaningHoldRequested(
        event_id=request,
        table=TABLE,
        occurred_at=NOON,
        source="cli",
        requested_by="mara",
        reason="a report is stuck",
    )


def removal(request: str = "back-1") -> CleaningHoldRemovalRequested:
    return CleaningHoldRemovalRequested(
        event_id=request,
        table=TABLE,
        occurred_at=NOON,
        source="cli",
        requested_by="mara",
        reason="it is done",
    )


@pytest.fixture(autouse=True, params=[True, False], ids=["killed", "running"])
def restarts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs twice: what is derived from the records must equal what is maintained."""
    monkeypatch.setattr(Gate, "kills", request.param)


class Gate(Rows):
    """A gate, and its changelog; where `kills`, it is killed after every decision."""

    kills: ClassVar[bool] = True

    def __init__(self, gate: ReaderGate | None = None) -> None:
        super().__init__(gate, restarts=self.kills)

    def said(self) -> list[tuple[type[Outcome], int | None]]:
        return [(type(outcome), getattr(outcome, "released", None)) for outcome in self.outcomes]


def causes(commands: Sequence[Command]) -> list[str | None]:
    assert all(isinstance(command, CleaningReleased) for command in commands)
    return [command.caused_by for command in commands]


def test_what_becomes_free_while_a_table_is_held_is_released_with_the_holds_removal() -> None:
    gate, first, second = Gate(), vacuum(1, 2), vacuum(3, made=MINOR_4, snapshot=IDS_1_TO_4)
    assert gate.handle(first, hold(), released(1), released(2)) == []
    assert gate.handle(released(3), second) == []
    assert gate.handle(released(9)) == []
    commands = gate.handle(removal())
    assert sorted(map(str, causes(commands))) == sorted([first.event_id, second.event_id])
    assert gate.said() == [(CleaningHeld, None), (CleaningHoldRemoved, 2)]
    assert gate.handle(removal("back-2"), released(9)) == []
    assert gate.said()[-1] == (CleaningHoldRemoved, 0)


def test_a_held_vacuum_that_still_has_readers_waits_for_them_after_the_hold() -> None:
    gate, its = Gate(), vacuum(1, 2)
    assert gate.handle(its, hold(), released(1), removal()) == []
    assert causes(gate.handle(released(2))) == [its.event_id]


def test_a_second_hold_replaces_the_first_and_one_removal_ends_it() -> None:
    gate, its = Gate(), vacuum(1)
    assert gate.handle(hold(), hold("hold-2"), its, released(1)) == []
    assert causes(gate.handle(removal())) == [its.event_id]


def test_a_hold_is_of_one_table() -> None:
    gate, its = Gate(), vacuum(1)
    other = hold().model_copy(update={"table": "hive.default.other"})
    assert causes(gate.handle(other, its, released(1))) == [its.event_id]


def undated(commands: Sequence[Command]) -> list[dict[str, object]]:
    return [command.model_dump(exclude={"occurred_at"}) for command in commands]


def freed(gate: Gate) -> CleaningReleased:
    (command,) = gate.handle(vacuum(1), released(1, ReleaseReason.EXPIRED))
    assert isinstance(command, CleaningReleased)
    return command


def deferral(command: CleaningReleased) -> Event:
    return not_confirmed(command, Reason.NOT_CONFIRMED, "the transaction is open", NOON)


def test_a_cleaning_that_was_not_confirmed_is_released_again_after_a_while() -> None:
    gate = Gate()
    command = freed(gate)
    assert gate.handle(deferral(command)) == []
    assert gate.tick(NOON + AGAIN / 2) == []
    assert undated(gate.tick(NOON + AGAIN)) == undated([command])
    assert gate.tick(NOON + 9 * AGAIN) == []


@pytest.mark.parametrize("held_first", [True, False])
def test_a_cleaning_of_a_held_table_that_was_not_confirmed_is_released_after_the_hold(
    held_first: bool,  # noqa: FBT001 - a parameter
) -> None:
    gate = Gate()
    command = freed(gate)
    both = (hold(), deferral(command)) if held_first else (deferral(command), hold())
    assert gate.handle(*both) == []
    assert gate.tick(NOON + 24 * HOUR) == []
    assert gate.handle(removal()) == [command]
    assert gate.said()[-1] == (CleaningHoldRemoved, 1)
    assert gate.handle(removal("back-2")) == []


@pytest.mark.parametrize("reason", list(ReleaseReason))
def test_only_the_end_of_an_expired_hold_is_not_trusted_alone(reason: ReleaseReason) -> None:
    gate = Gate()
    (command,) = gate.handle(vacuum(1, 2), released(1, reason), released(2))
    assert isinstance(command, CleaningReleased)
    assert command.after_expiry is (reason is ReleaseReason.EXPIRED)


@pytest.mark.parametrize("expired", [{"lock": 2}, {"txn": 9}, {"lock": 2, "txn": 9}], ids=str)
def test_a_reader_whose_lock_or_transaction_alone_is_published_as_expired_is_not_trusted(
    expired: dict[str, int],
) -> None:
    gate = Gate()
    assert gate.handle(vacuum(1, 2, reader=9), released(1)) == []
    (command,) = gate.handle(released(**expired, reason=ReleaseReason.EXPIRED))
    assert isinstance(command, CleaningReleased)
    assert command.after_expiry


def test_an_expiry_counts_whatever_else_is_said_of_the_hold_and_before_its_vacuum() -> None:
    gate = Gate()
    events = released(1, ReleaseReason.EXPIRED), released(1), vacuum(1)
    (command,) = gate.handle(*events)
    assert isinstance(command, CleaningReleased)
    assert command.after_expiry
    other = Gate()
    (command,) = other.handle(released(7, ReleaseReason.EXPIRED), vacuum(1), released(1))
    assert isinstance(command, CleaningReleased)
    assert not command.after_expiry


def test_an_expiry_is_remembered_as_long_as_a_vacuum_waits_and_leaves_no_mark() -> None:
    gate = Gate(ReaderGate(remembers=Limits(HOUR)))
    assert gate.handle(vacuum(1, 2), released(1, ReleaseReason.EXPIRED)) == []
    for number in range(10, 200):
        gate.handle(released(number), at=NOON + 2 * HOUR)
    gate.tick(NOON + 2 * HOUR)
    for number in range(200, 400):
        gate.handle(released(number), at=NOON + 9 * HOUR)
    gate.tick(NOON + 9 * HOUR)
    assert gate.store.one("select min(token) from ended") == (2,)
    (command,) = gate.handle(released(2), at=NOON + 10 * HOUR)
    assert isinstance(command, CleaningReleased)
    assert command.after_expiry


KEEP = 72 * HOUR


def started(command: CleaningReleased, **changes: object) -> CleaningStarted:
    fields = {
        "occurred_at": NOON,
        "source": "cleaner",
        "directories": ("delta_1_1", "delta_2_2"),
        "files": 4,
        "bytes": 900,
        "mode": "quarantine",
        "keep_ms": KEEP // timedelta(milliseconds=1),
    }
    return CleaningStarted.about(command, **fields | changes)


def gone(command: CleaningReleased) -> dict[str, object]:
    return {
        "occurred_at": NOON,
        "source": "cleaner",
        "directories": (),
        "files": 0,
        "bytes": 0,
        "cleaning": command.event_id,
        "duration_ms": 1,
        "caused_by": "request",
        "table": TABLE,
        "location": "/wh/t",
    }


def test_a_quarantine_is_removed_when_its_time_is_over_and_asked_for_until_it_is_gone() -> None:
    gate = Gate()
    command = freed(gate)
    assert gate.handle(started(command)) == []
    assert gate.tick(NOON + KEEP - HOUR / 60) == []
    (request,) = gate.tick(NOON + KEEP)
    assert isinstance(request, QuarantineRemovalRequested)
    assert (request.cleaning, request.location) == (command.event_id, "/wh/t")
    assert gate.tick(NOON + KEEP + HOUR / 2) == []
    assert undated(gate.tick(NOON + KEEP + HOUR)) == undated([request])
    assert gate.tick(NOON + KEEP + 2 * HOUR) == []
    assert undated(gate.tick(NOON + KEEP + 3 * HOUR)) == undated([request])
    assert gate.handle(QuarantineRemoved.model_validate(gone(command))) == []
    assert gate.tick(NOON + 100 * KEEP) == []


def test_the_gate_was_away_when_the_time_was_over_and_asks_as_soon_as_it_is_back() -> None:
    gate = Gate()
    command = freed(gate)
    gate.handle(started(command))
    (request,) = gate.tick(NOON + 9 * KEEP)
    assert isinstance(request, QuarantineRemovalRequested)


def test_a_cleaning_that_deletes_leaves_nothing_to_remove() -> None:
    gate = Gate()
    assert gate.handle(started(freed(gate), mode="delete", keep_ms=None)) == []
    assert gate.tick(NOON + 9 * KEEP) == []


def test_a_cleaning_that_starts_again_has_its_time_anew() -> None:
    gate = Gate()
    command = freed(gate)
    gate.handle(started(command))
    gate.handle(started(command, directories=("delta_2_2",)), at=NOON + KEEP / 2)
    assert gate.tick(NOON + KEEP) == []
    assert len(gate.tick(NOON + 1.5 * KEEP)) == 1


def test_the_quarantine_of_a_held_table_is_kept_until_the_hold_is_removed() -> None:
    gate = Gate()
    gate.handle(started(freed(gate)), hold())
    assert gate.tick(NOON + KEEP) == []
    assert gate.tick(NOON + KEEP + 2 * HOUR) == []
    assert gate.handle(removal()) == []
    assert len(gate.tick(NOON + KEEP + 4 * HOUR)) == 1


def test_what_was_put_back_is_not_counted_and_its_record_still_ends() -> None:
    gate = Gate()
    command = freed(gate)
    gate.handle(started(command))

    def kept() -> Quarantine:
        [found] = quarantines(gate.store)
        return found

    assert (kept().directories, kept().bytes) == (2, 900)
    gate.handle(CleaningUndone.model_validate(gone(command)))
    assert (kept().directories, kept().bytes) == (0, 0)
    assert len(gate.tick(NOON + KEEP)) == 1
