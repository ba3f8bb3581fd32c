"""Which entries of the queue have been cleaned, by the events alone."""

from __future__ import annotations

from typing import Any

from support.metastore_model import NOON, vacuum
from tidegate.coordinator.readers import command_for
from tidegate.events import CleaningRefused, DirectoriesCleaned, Outcome, VacuumFinished, VacuumKind
from tidegate.hive_bridge.compactions import Cleanings
from tidegate.hive_metastore.values import READY_FOR_CLEANING, QueueEntry


def outcome(event: VacuumFinished, kind: type[Outcome] = DirectoriesCleaned) -> Outcome:
    """What the cleaner says of the command that the gate makes of a vacuum."""
    command = command_for(event, NOON)
    fields: dict[str, Any] = {"occurred_at": NOON, "source": "cleaner"}
    if kind is DirectoriesCleaned:
        fields |= {"directories": (), "files": 0, "bytes": 0, "duration_ms": 0}
    else:
        fields |= {"reason": "not-covered", "message": "x"}
    return kind.about(command, **fields)


def entry(txn: int, state: str = READY_FOR_CLEANING) -> QueueEntry:
    return QueueEntry(txn, "sales", "orders", None, VacuumKind.MINOR, state, 3, txn, txn)


def cleaned(cleanings: Cleanings, *queue: QueueEntry) -> list[int | None]:
    return [cleaning.transaction_id for cleaning, _ in cleanings.cleaned(queue)]


def test_only_the_outcome_of_its_own_cleaning_makes_an_entry_cleaned() -> None:
    cleanings, mine = Cleanings("Hive"), vacuum(own_transaction_id=9)
    others = vacuum(own_transaction_id=9, table="hive.sales.other")
    cleanings.take(mine)
    cleanings.take(others)
    assert cleaned(cleanings, entry(9)) == []
    cleanings.take(outcome(others))
    cleanings.take(outcome(mine, CleaningRefused))
    assert cleaned(cleanings, entry(9)) == []
    cleanings.take(outcome(mine))
    assert cleaned(cleanings, entry(9), entry(8)) == [9]
    assert cleaned(cleanings, entry(9, state="succeeded")) == []


def test_a_vacuum_of_another_catalog_has_no_entry_here() -> None:
    cleanings, mine = Cleanings("other"), vacuum(own_transaction_id=9)
    cleanings.take(mine)
    cleanings.take(outcome(mine))
    assert len(cleanings) == 0


def test_a_vacuum_that_was_published_with_other_holds_is_cleaned_by_either_command() -> None:
    first, second = vacuum([1], own_transaction_id=9), vacuum([1, 2], own_transaction_id=9)
    assert first.event_id != second.event_id
    for cleaned_first in (first, second):
        cleanings = Cleanings("hive")
        cleanings.take(first)
        cleanings.take(second)
        cleanings.take(outcome(cleaned_first))
        assert cleaned(cleanings, entry(9)) == [9]


def of_range(txn: int, low: int, high: int, kind: VacuumKind = VacuumKind.MINOR) -> VacuumFinished:
    name = f"base_{high:07}" if kind is VacuumKind.MAJOR else f"delta_{low:07}_{high:07}"
    return vacuum(
        kind=kind,
        directories=(f"{name}_v{txn:07}",),
        min_write_id=low,
        max_write_id=high,
        valid_write_ids=f"sales.orders:{high}:9223372036854775807::",
        own_transaction_id=txn,
    )


def test_a_later_vacuum_does_the_work_of_those_that_it_contains_and_of_no_other() -> None:
    minor, wider, ahead, major = (
        of_range(11, 2, 4),
        of_range(12, 2, 6),
        of_range(13, 7, 9),
        of_range(14, 1, 6, VacuumKind.MAJOR),
    )
    everything = [entry(number) for number in (11, 12, 13, 14)]
    for done, expected in ((minor, [11]), (wider, [11, 12]), (ahead, [13]), (major, [11, 12, 14])):
        cleanings = Cleanings("hive")
        for event in (minor, wider, ahead, major):
            cleanings.take(event)
        cleanings.take(outcome(done))
        assert cleaned(cleanings, *everything) == expected
    cleanings = Cleanings("hive")
    of_major, later_minor = of_range(14, 1, 6, VacuumKind.MAJOR), of_range(15, 1, 8)
    cleanings.take(of_major)
    cleanings.take(later_minor)
    cleanings.take(outcome(later_minor))
    # a delta replaces no base
    assert cleaned(cleanings, entry(14), entry(15)) == [15]


def test_what_the_queue_does_not_have_any_more_is_forgotten_and_nothing_that_it_may_have() -> None:
    cleanings = Cleanings("hive")
    for txn in (11, 12):
        cleanings.take(of_range(txn, 2, txn))
    cleanings.begin()
    cleanings.take(of_range(13, 2, 13))  # after the queue was asked for
    cleanings.forget([entry(11), entry(12, state="succeeded")])
    assert len(cleanings) == 2
    for txn in (11, 12, 13):
        cleanings.take(outcome(of_range(txn, 2, txn)))
    assert cleaned(cleanings, entry(11), entry(12), entry(13)) == [11, 13]
    cleanings.begin()
    cleanings.forget([])
    assert len(cleanings) == 0
