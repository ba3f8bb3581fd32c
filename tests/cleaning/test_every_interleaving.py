"""Every order of the steps of a bounded world: no reader misses a row, every vacuum is cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest

from support.interleavings import IDS, Model, Rules, Scenario, Violation
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.events import CleaningReleased
from tidegate.hive.names import Delta
from tidegate.hive.obsolete import FoundDirectory, acid_state
from tidegate.hive.write_ids import CleanerWriteIds, ValidWriteIds
from tidegate.hive_metastore.values import HeldTables, Holds, Transactions, holds_of

SMALL = (
    Scenario(4, ("minor", "major"), ("table",), faults=1),
    Scenario(3, ("minor", "major"), ("partition",), faults=1),
    Scenario(4, ("minor",), ("database", "elsewhere"), faults=1),
    Scenario(4, ("major", "minor"), ("table",), writer="deletes"),
    Scenario(3, ("minor", "major"), ("table", "partition"), dies=1),
    Scenario(4, ("minor",), ("table",), writer="overwrites"),
    Scenario(3, ("major",), ("partition",), writer="overwrites"),
)
LARGE = (
    Scenario(3, ("minor", "minor"), ("table",), writer="deletes"),
    Scenario(4, ("minor", "major"), ("table", "partition", "database"), dies=2),
    Scenario(3, ("minor", "major"), ("table", "partition", "database"), dies=2),
    Scenario(4, ("minor", "major"), ("table", "partition"), faults=1, dies=1),
    Scenario(3, ("major", "minor"), ("table", "database"), faults=1, dies=1),
    Scenario(4, ("minor", "minor"), ("partition", "elsewhere"), writer="deletes", faults=1),
    Scenario(3, ("minor", "major"), ("database",), writer="deletes", faults=1),
    Scenario(4, ("minor", "major"), ("table",), faults=2),
    Scenario(4, ("minor", "major"), ("table", "partition"), writer="deletes"),
    Scenario(4, ("minor", "major"), ("table",), writer="overwrites", faults=1),
)


@pytest.mark.parametrize("scenario", SMALL, ids=lambda scenario: scenario.title)
def test_no_reader_misses_a_row_and_every_vacuum_is_cleaned(scenario: Scenario) -> None:
    print(Model(scenario).run(), scenario.title)  # noqa: T201 - how much was looked at


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", LARGE, ids=lambda scenario: scenario.title)
def test_so_it_is_in_larger_worlds(scenario: Scenario) -> None:
    print(Model(scenario).run(), scenario.title)  # noqa: T201 - how much was looked at


# What known cleaners get wrong, put back one by one; and our own rules, taken out.


def locks_only(*args: object) -> Holds:
    """A reader takes its snapshot when it compiles, and its lock later."""
    return holds_of(*args)[0], ()  # type: ignore[arg-type]


def of_the_partition_only(
    held: HeldTables, transactions: Transactions, place: tuple[str, str, str | None], mark: int
) -> Holds:
    """OpenLooKeng sees the locks of a partition, not those of its table."""
    locks, _ = holds_of(held, transactions, place, mark)
    return tuple(lock for lock in locks if lock.partition == place[2]), ()


def below_the_mark(
    held: HeldTables, transactions: Transactions, place: tuple[str, str, str | None], mark: int
) -> Holds:
    """Waits for fewer than were open: the mark of Hive 4.0.1 is the highest id, itself included."""
    return holds_of(held, transactions, place, mark - IDS)


def nothing(*_: object) -> Holds:
    """Cleans at once."""
    return (), ()


def obsolete_now(listing: Sequence[ListedDirectory], command: CleaningReleased) -> CleaningPlan:
    """All that the vacuum's snapshot does not read: openLooKeng's and Hive 3's rule, HIVE-27526."""
    ids = ValidWriteIds.parse(command.valid_write_ids)
    state = acid_state([FoundDirectory.named(item.name) for item in listing], ids)
    gone = {*state.obsolete, *state.aborted}
    return CleaningPlan(tuple(item for item in listing if item.name in gone))


def as_hives_cleaner(
    listing: Sequence[ListedDirectory], command: CleaningReleased, *, takes_later_bases: bool = True
) -> CleaningPlan:
    """Hive's rule for its own cleaner; HIVE-29601 is that it judges by bases above the mark too."""
    ids = CleanerWriteIds.of(ValidWriteIds.parse(command.valid_write_ids))
    found = [FoundDirectory.named(item.name) for item in listing]
    if not takes_later_bases:
        found = [
            item
            for item in found
            if isinstance(item.acid, Delta) or item.acid.max_write_id <= ids.high_water_mark
        ]
    state = acid_state(found, ids)
    gone = {*state.obsolete, *state.aborted}
    return CleaningPlan(tuple(item for item in listing if item.name in gone))


def with_the_mark_lowered(answer: ValidWriteIds, highest: int) -> ValidWriteIds:
    """The valid state now, as Hive's cleaner takes it: open ids above the mark are still known."""
    return replace(answer, high_water_mark=min(highest, answer.high_water_mark))


def all_as_committed(answer: ValidWriteIds, _: int) -> ValidWriteIds:
    """Neither open nor aborted ids: openLooKeng."""
    return ValidWriteIds(answer.table, answer.high_water_mark)


def never_the_aborted(
    listing: Sequence[ListedDirectory], command: CleaningReleased
) -> CleaningPlan:
    """The leftovers of aborted writes belong to no reader: openLooKeng."""
    plan = plan_cleaning(listing, command)
    kept = tuple(item for item in plan.remove if "delta_0000002_0000002" not in item.name)
    return replace(plan, remove=kept)


BETWEEN = Scenario(4, ("minor", "major"), ("table",), writer="deletes")
OVERWRITTEN = Scenario(4, ("minor",), ("table",), writer="overwrites")
ONE = Scenario(4, ("minor",), ("table",))
DEATHS = Scenario(4, ("minor",), ("table",), faults=1)
READERS_FAULTS = {
    "nothing is waited for": (ONE, Rules(holds_of=nothing)),
    "only locks are waited for": (ONE, Rules(holds_of=locks_only)),
    "only the partition's locks": (ONE, Rules(holds_of=of_the_partition_only)),
    "the mark is too low": (ONE, Rules(holds_of=below_the_mark)),
    "the queue is asked for last": (ONE, Rules(queue_first=False)),
    "all that is obsolete now (HIVE-27526)": (BETWEEN, Rules(plan=obsolete_now)),
    "a base above the mark (HIVE-29601)": (
        OVERWRITTEN,
        Rules(plan=as_hives_cleaner, write_ids=with_the_mark_lowered),
    ),
    "open and aborted ids as committed": (
        OVERWRITTEN,
        Rules(plan=as_hives_cleaner, write_ids=all_as_committed),
    ),
}
VACUUMS_FAULTS = {
    "aborted writes are left": (ONE, Rules(plan=never_the_aborted)),
    "a gate that gives up": (ONE, Rules(gate_waits_on=False)),
    "a memory that dies with its process": (DEATHS, Rules(gate_remembers=False)),
    "cleaned, though directories are left": (DEATHS, Rules(plans_again=False)),
    "a query on another table holds": (
        Scenario(4, ("minor",), ("elsewhere",)),
        Rules(frees_elsewhere=False),
    ),
}


@pytest.mark.parametrize(("scenario", "rules"), READERS_FAULTS.values(), ids=READERS_FAULTS)
def test_a_fault_that_hurts_readers_is_found(scenario: Scenario, rules: Rules) -> None:
    with pytest.raises(Violation, match=r"reader|vacuum \d reads"):
        Model(scenario, rules).run()


@pytest.mark.parametrize(("scenario", "rules"), VACUUMS_FAULTS.values(), ids=VACUUMS_FAULTS)
def test_a_fault_that_leaves_directories_is_found(scenario: Scenario, rules: Rules) -> None:
    with pytest.raises(Violation, match="not all is cleaned in the end"):
        Model(scenario, rules).run()


@pytest.mark.parametrize("hive", [3, 4])
def test_in_that_world_the_base_above_the_mark_is_hives_only_fault(hive: Literal[3, 4]) -> None:
    """So what is found there is HIVE-29601, and our rules hold with Hive's list of ids as well."""
    scenario = replace(OVERWRITTEN, hive=hive)
    bounded = partial(as_hives_cleaner, takes_later_bases=False)
    for plan in (bounded, plan_cleaning):
        Model(scenario, Rules(plan=plan, write_ids=with_the_mark_lowered)).run()


def test_a_lock_on_the_database_is_not_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_elsewhere(self: HeldTables, transaction: int, database: str, table: str) -> bool:
        places = self._places.get(transaction, set())
        return bool(places) and (database, table) not in places

    monkeypatch.setattr(HeldTables, "is_elsewhere", is_elsewhere)
    with pytest.raises(Violation, match="reader"):
        Model(replace(ONE, readers=("database",))).run()
