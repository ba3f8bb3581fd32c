"""Of however many waiting vacuums, those that are listed are in memory, and no more."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from support.deployment_events import vacuum
from support.rows import Rows
from support.samples import NOON
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.vacuums import WaitingVacuum, waiting_vacuums
from tidegate.ops.waiting import OldestVacuums, PendingVacuum

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

    hours = [(vacuum_.since - NOON) // timedelta(hours=1) for vacuum_ in oldest.vacuums]
    assert (hours, oldest.count) == ([1, 2, 4], 6)
    assert [hold.lock_id for hold in oldest.vacuums[0].outstanding] == [1, 2]


def test_only_those_that_are_wanted_are_counted() -> None:
    oldest = OldestVacuums(9, lambda vacuum_: vacuum_.table == "lake.sales.t1")
    oldest.take(store_with(1, 2, 3, 4))

    assert [vacuum_.table for vacuum_ in oldest.vacuums] == ["lake.sales.t1"] * 2
    assert oldest.count == 2


def test_readers_are_looked_up_for_those_that_are_listed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = list[WaitingVacuum]()
    of = PendingVacuum.of

    def counted(waiting: WaitingVacuum, rows: Store) -> PendingVacuum:
        looked_up.append(waiting)
        return of(waiting, rows)

    monkeypatch.setattr(PendingVacuum, "of", counted)
    OldestVacuums(2).take(store_with(*range(20)))

    assert len(looked_up) == 2


def test_the_readers_of_a_stored_vacuum_are_counted_as_it_is_listed() -> None:
    store = store_with(5)
    [waiting] = waiting_vacuums(store)
    locks, transactions = waiting.outstanding(store)

    outstanding = PendingVacuum.of(waiting, store).outstanding
    assert (len(locks), len(transactions)) == (len(outstanding), 0)
