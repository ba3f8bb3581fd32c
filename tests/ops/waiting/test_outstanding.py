"""The outstanding readers of a waiting vacuum, and their owners."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from support.deployment_events import ORDERS, vacuum
from support.rows import Rows
from support.samples import NOON, release
from tidegate.cli.look.status import headline, show_vacuums
from tidegate.cli.output import plain
from tidegate.coordinator.vacuums import waiting_vacuums
from tidegate.events import Event, LockHold, LockReleased, OutstandingReader, VacuumFinished
from tidegate.ops.summary import age_of
from tidegate.ops.waiting import PendingVacuum

CUSTOMERS = "lake.sales.customers"


def waiting_after(*events: Event) -> Sequence[PendingVacuum]:
    """What waits after a gate has read events, from its changelog alone."""
    rows = Rows(restarts=False)
    rows.handle(*events, at=NOON)
    rows.restart()
    return [PendingVacuum.of(vacuum, rows.store) for vacuum in waiting_vacuums(rows.store)]


def with_locks(*locks: LockHold, transactions: tuple[int, ...] = ()) -> VacuumFinished:
    fields = vacuum(7).model_dump(exclude={"event_id", "locks", "open_transactions"})
    own = LockHold(lock_id=7)
    return VacuumFinished.model_validate(
        fields | {"locks": (own, *locks), "open_transactions": transactions}
    )


def test_a_vacuum_waits_for_the_holds_that_have_not_ended_and_names_their_owners() -> None:
    [found] = waiting_after(vacuum(7, 8, 9), release(7), release(9))

    assert (found.table, found.since, found.holds) == (ORDERS, NOON, 3)
    assert found.outstanding == (OutstandingReader(lock_id=8, owner="user8"),)
    assert str(found.outstanding[0]) == "lock 8 of user8"
    assert "waits for 1 of 3 readers" in headline(found, NOON + timedelta(hours=2))


def test_a_lock_and_its_transaction_are_one_hold() -> None:
    """Whichever of them is open, what is left is never more or less than what there was."""
    event = with_locks(LockHold(lock_id=8, transaction_id=90), transactions=(90, 91))
    [found] = waiting_after(event)
    assert (found.holds, len(found.outstanding)) == (3, 3)

    [found] = waiting_after(event, release(7), release(8))

    assert sorted(reader.transaction_id or 0 for reader in found.outstanding) == [90, 91]
    assert "waits for 2 of 3 readers" in headline(found, NOON + timedelta(hours=2))


def test_of_a_held_table_it_is_not_the_readers_that_a_vacuum_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [found] = waiting_after(vacuum(7, 8))
    show_vacuums([replace(found, outstanding=(), held_by="mara: an audit")], NOON)

    headline, line = capsys.readouterr().out.splitlines()
    assert headline.endswith("  all 2 readers have ended")
    assert line == "    waits until the hold of its table is removed"


def test_a_vacuum_that_was_released_waits_no_more() -> None:
    assert waiting_after(vacuum(7), release(7)) == []


def test_a_lock_ends_with_its_transaction() -> None:
    lock = LockHold(lock_id=8, transaction_id=80, owner="ana")
    ended = LockReleased.model_validate(
        release(8).model_dump(exclude={"event_id", "lock_id"}) | {"transaction_id": 80}
    )

    [found] = waiting_after(with_locks(lock), ended)

    assert [reader.lock_id for reader in found.outstanding] == [7]


def test_a_transaction_with_a_lock_is_one_hold_and_one_without_is_another() -> None:
    lock = LockHold(lock_id=8, transaction_id=80, owner="ana", partition="day=1")
    [found] = waiting_after(with_locks(lock, transactions=(80, 90)), release(7))

    assert found.outstanding == (
        OutstandingReader(lock_id=8, transaction_id=80, owner="ana", partition="day=1"),
        OutstandingReader(transaction_id=90),
    )
    assert [str(reader) for reader in found.outstanding] == [
        "lock 8 in transaction 80 of ana",
        "transaction 90",
    ]


def test_a_transaction_that_has_ended_is_not_waited_for() -> None:
    ended = LockReleased.model_validate(
        release(8).model_dump(exclude={"event_id", "lock_id"}) | {"transaction_id": 90}
    )

    [found] = waiting_after(vacuum(7, transactions=(90, 91)), ended)

    assert found.outstanding == (
        OutstandingReader(lock_id=7, owner="user7"),
        OutstandingReader(transaction_id=91),
    )


def test_the_owner_of_a_transaction_is_known_from_a_lock_that_has_ended() -> None:
    lock = LockHold(lock_id=8, transaction_id=80, owner="ana")
    [found] = waiting_after(with_locks(lock, transactions=(80,)), release(8))

    assert OutstandingReader(transaction_id=80, owner="ana") in found.outstanding


def test_tables_do_not_mix() -> None:
    found = waiting_after(vacuum(7), vacuum(7, table=CUSTOMERS), release(7))

    assert [vacuum_.table for vacuum_ in found] == [CUSTOMERS]
    assert json.loads(json.dumps(found[0], default=plain))["outstanding"][0]["owner"] == "user7"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0s"), (59, "59s"), (60, "1m 0s"), (3_900, "1h 5m"), (180_000, "2d 2h")],
)
def test_an_age_has_two_units(seconds: int, said: str) -> None:
    assert age_of(timedelta(seconds=seconds)) == said
