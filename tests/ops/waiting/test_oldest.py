"""Of however many waiting vacuums, those that are listed are in memory, and no more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from support.rows import Rows
from support.samples import NOON
from support.told import vacuum
from tidegate.coordinator.store import Store
from tidegate.ops.waiting import OldestVacuums
from tidegate.ops.waiting.lack import StoredVacuum

if TYPE_CHECKING:
    import pytest


def store_with(*numbers: int) -> Store:
    """A store in which the vacuum of a higher number is younger."""
    rows = Rows(restarts=False)
    for number in numbers:
        event = vacuum(number, number + 1, table=f"lake.sales.t{number % 3}")
        rows.handle(event, at=NOON + timedelta(hours=number))
    return rows.store


def test_the_oldest_of_all_partitions_are_listed_in_order_and_all_are_counted() -> None:
    oldest = OldestVacuums(3)
    for store in (store_with(9, 2, 7), store_with(), store_with(4, 8, 1)):
        oldest.take(store)

    hours = [(each.since - NOON) // timedelta(hours=1) for each in oldest.vacuums]
    assert (hours, oldest.count) == ([1, 2, 4], 6)
    assert [hold.lock_id for hold in oldest.vacuums[0].lacks] == [1, 2]


def test_only_those_that_are_wanted_are_counted() -> None:
    oldest = OldestVacuums(9, lambda each: each.table == "lake.sales.t1")
    oldest.take(store_with(1, 2, 3, 4))

    assert [each.table for each in oldest.vacuums] == ["lake.sales.t1"] * 2
    assert oldest.count == 2


def test_what_is_lacked_is_looked_up_for_those_that_are_listed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = list[StoredVacuum]()
    lacking = StoredVacuum.lacking

    def counted(self: StoredVacuum) -> object:
        looked_up.append(self)
        return lacking(self)

    monkeypatch.setattr(StoredVacuum, "lacking", counted)
    OldestVacuums(2).take(store_with(*range(20)))

    assert len(looked_up) == 2


def test_what_a_stored_vacuum_lacks_is_counted_as_it_is_listed() -> None:
    store = store_with(5)
    oldest = OldestVacuums(1)
    counts = list[tuple[int, int]]()

    def wanted(each: StoredVacuum) -> bool:
        counts.append(each.count_lacks())
        return True

    OldestVacuums(1, wanted).take(store)
    oldest.take(store)

    assert counts == [(len(oldest.vacuums[0].lacks), 0)]
