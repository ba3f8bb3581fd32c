"""What a reader sees before, during and after a quarantine, as Hive's own AcidUtils says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Protocol

import pytest

from support.acid import VACUUMED, Case, build, found, reader, release, release_of, state_seen
from support.acid_history import Vacuumed, recorded_history
from support.acid_orc import AcidTable
from support.quarantined import in_quarantine, quarantining, undo, undo_of, visible
from tidegate.cleaning.executor import Cleaner
from tidegate.events import CleaningReleased, CleaningUndone
from tidegate.hive.names import Base
from tidegate.hive.obsolete import NotEnoughHistory, _AcidState
from tidegate.hive.write_ids import ValidTxns, ValidWriteIds
from tidegate.tables.claim import HIVE, Task

pytestmark = [pytest.mark.judge]

ALL_COMMITTED = ValidTxns(1000, 1001)
COLUMNS = {"id": "bigint", "city": "string"}
MOST_BASES = 4
Look = tuple[ValidWriteIds, ValidTxns]
View = tuple[str | None, frozenset[str]] | str


class Judge(Protocol):
    def ask(
        self, table: Path, write_ids: ValidWriteIds, txns: ValidTxns, *, as_cleaner: bool
    ) -> _AcidState | str: ...

    def compact(
        self, table: Path, write_ids: ValidWriteIds, columns: Mapping[str, str], txns: ValidTxns
    ) -> None: ...

    def rows(
        self,
        table: Path,
        write_ids: ValidWriteIds,
        columns: Mapping[str, str],
        txns: ValidTxns = ALL_COMMITTED,
    ) -> list[str]: ...


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_neither_a_reader_nor_hives_cleaner_sees_what_is_in_quarantine(
    case: Case, tmp_path: Path, hive: Judge
) -> None:
    table = build(tmp_path / "t", case.directories)
    ids, command = reader(case.write_ids), release_of(case, str(table))
    before = view(hive, table, (ids, ALL_COMMITTED))
    list(quarantining(tmp_path).execute(command))
    assert in_quarantine(table) == sorted(case.obsolete)
    assert view(hive, table, (ids, ALL_COMMITTED)) == before
    for as_cleaner in (False, True):
        answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=as_cleaner)
        assert isinstance(answer, _AcidState)
        assert (answer.obsolete, answer.aborted) == ((), ())
    assert isinstance(undo(quarantining(tmp_path), undo_of(command)), CleaningUndone)
    assert view(hive, table, (ids, ALL_COMMITTED)) == before


@pytest.mark.parametrize("case", VACUUMED, ids=lambda case: case.title)
def test_neither_a_reader_nor_hives_cleaner_sees_a_claim(
    case: Case, tmp_path: Path, hive: Judge
) -> None:
    table = build(tmp_path / "t", case.directories)
    ids, command = reader(case.write_ids), release_of(case, str(table))
    before = [hive.ask(table, ids, ALL_COMMITTED, as_cleaner=is_so) for is_so in (False, True)]
    cleaner = quarantining(tmp_path)
    claim = cleaner.claim(command, Task(7, "task-7", command.table, "cluster/tidegate"))
    claim.planned("all")
    claim.finish([])
    assert [path.name for path in sorted((table / HIVE / "tasks").iterdir())] == [
        "7",
        "7.done",
        "7.plan",
    ]
    after = [hive.ask(table, ids, ALL_COMMITTED, as_cleaner=is_so) for is_so in (False, True)]
    assert after == before


def test_hive_compacts_a_table_with_a_claim_to_the_same_rows(tmp_path: Path, hive: Judge) -> None:
    (tmp_path / "t").mkdir()
    table = AcidTable(tmp_path / "t", COLUMNS)
    ids = ValidWriteIds("default.table_txn_001", 2)
    table.insert(1, [(1, "Porto"), (2, "Ghent")])
    table.insert(2, [(3, "Oslo")])
    before = hive.rows(table.location, ids, COLUMNS)
    command = release(str(table.location))
    task = Task(7, "task-7", command.table, "cluster/tidegate")
    quarantining(tmp_path).claim(command, task).finish([])
    hive.compact(table.location, ids, COLUMNS, ALL_COMMITTED)
    assert len(before) == 3
    assert hive.rows(table.location, ids, COLUMNS) == before
    assert (table.location / HIVE / "tasks/7.done").exists()


def test_hive_reads_the_same_rows_before_during_and_after(tmp_path: Path, hive: Judge) -> None:
    (tmp_path / "t").mkdir()
    table = AcidTable(tmp_path / "t", COLUMNS)
    all_ids = ValidWriteIds("default.table_txn_001", 4)
    table.insert(1, [(1, "Porto"), (2, "Ghent")])
    table.insert(2, [(3, "Oslo")])
    table.insert(3, [(4, "Turin")])
    (ghent,) = (key for key, row in table.read(all_ids).items() if row == (2, "Ghent"))
    table.delete(4, [ghent])
    made = table.compact_minor(1, 4, all_ids)
    before = hive.rows(table.location, all_ids, COLUMNS)
    assert len(before) == 3
    command = release(
        str(table.location), directories=made, max_write_id=4, valid_write_ids=str(all_ids)
    )
    list(quarantining(tmp_path).execute(command))
    assert visible(table.location) == sorted(made)
    assert hive.rows(table.location, all_ids, COLUMNS) == before
    assert isinstance(undo(quarantining(tmp_path), undo_of(command)), CleaningUndone)
    assert hive.rows(table.location, all_ids, COLUMNS) == before


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(40), id="some"),
        pytest.param(range(40, 600), id="many", marks=pytest.mark.full),
    ],
)
def test_on_random_histories_no_reader_sees_other_rows_at_any_step(
    seeds: range, tmp_path: Path, hive: Judge
) -> None:
    """Who sees a vacuum's product sees the same throughout; who does not, is whole in the end."""
    asked = undone = 0
    for seed in seeds:
        history = recorded_history(seed)
        bases = [name for name in history.directories if name.startswith("base")]
        if not history.vacuums or len(bases) > MOST_BASES or compacted_twice(history.directories):
            continue
        table = build(tmp_path / str(seed), dict.fromkeys(history.directories, 1))
        looks = [look for look in history.looks if is_settled(history.directories, look)]
        first = {n: view(hive, table, look) for n, look in enumerate(looks)}
        cleaner = quarantining(tmp_path)
        done = [vacuum for vacuum in history.vacuums if quarantined(cleaner, table, vacuum)]
        asked += check(hive, table, looks, first, done)
        for vacuum in reversed(done):  # the last one first: its product hides the others'
            answer = undo(cleaner, undo_of(command_of(table, vacuum), f"undo-{vacuum.txn}"))
            assert isinstance(answer, CleaningUndone)
            undone += 1
            check(hive, table, looks, first, done)
        assert visible(table) == sorted(history.directories), seed
        assert [view(hive, table, look) for look in looks] == list(first.values()), seed
    assert asked >= len(seeds) // 2, (asked, undone)
    assert undone >= len(seeds) // 4, (asked, undone)


def compacted_twice(names: Sequence[str]) -> bool:
    """Whether two compactions were of one range, of which one may have died.

    Hive 4.0 reads both where both count. What such a cleaning moved is never put back: once the
    Metastore has forgotten that a compaction died, its product counts.
    """
    made = [name.partition("_v")[0] for name in names if "_v" in name]
    return len(made) > len(set(made))


def check(
    hive: Judge,
    table: Path,
    looks: Sequence[Look],
    first: Mapping[int, View],
    done: Sequence[Vacuumed],
) -> int:
    """A reader that sees the products of all these vacuums reads what it read at first."""
    count = 0
    for n, look in enumerate(looks):
        if all(look[1].is_valid(write.txn) for write in done):
            assert view(hive, table, look) == first[n], (table.name, look)
            count += 1
    return count


def view(hive: Judge, table: Path, look: Look) -> View:
    """What a reader with this snapshot reads: a base, and deltas."""
    answer = hive.ask(table, *look, as_cleaner=False)
    if isinstance(answer, str):
        return "not enough history" if "Not enough history" in answer else answer
    return answer.base, frozenset(answer.current)


def command_of(table: Path, vacuum: Vacuumed) -> CleaningReleased:
    ids = vacuum.write_ids
    snapshot = ValidWriteIds(
        "default.table_txn_001", ids.high_water_mark, ids.min_open, ids.open, ids.aborted
    )
    return release(
        str(table),
        kind=vacuum.kind,
        directories=vacuum.made,
        min_write_id=vacuum.low,
        max_write_id=vacuum.high,
        valid_write_ids=str(snapshot),
        own_transaction_id=vacuum.txn,
        caused_by=f"vacuum-{vacuum.txn}",
    )


def quarantined(cleaner: Cleaner, table: Path, vacuum: Vacuumed) -> bool:
    """Whether the cleaner has moved something aside for a vacuum; others it refuses."""
    *_, last = cleaner.execute(command_of(table, vacuum))
    return bool(getattr(last, "directories", ()))


def is_settled(names: Sequence[str], look: Look) -> bool:
    """Whether Hive's answer does not depend on the order of its hash map."""
    directories = found(*names)
    bases = [directory for directory in directories if isinstance(directory.acid, Base)]
    others = [directory for directory in directories if not isinstance(directory.acid, Base)]
    answers: set[View] = set()
    for order in permutations(bases):
        try:
            state = state_seen([*order, *others], *look)
        except NotEnoughHistory:
            answers.add("not enough history")
        else:
            answers.add((state.base, frozenset(state.current)))
    return len(answers) == 1
