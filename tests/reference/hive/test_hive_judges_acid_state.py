from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Protocol

import pytest

from support.acid import FIVE_LISTINGS, Case, build, cleaner, found, reader, state_seen, visible
from support.acid_history import random_history
from tidegate.events import VacuumKind
from tidegate.hive.names import Base
from tidegate.hive.obsolete import (
    FoundDirectory,
    NotEnoughHistory,
    _AcidState,
    acid_state,
    settled_state,
)
from tidegate.hive.write_ids import CleanerWriteIds, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.products import VacuumFields

pytestmark = [pytest.mark.judge]

ALL_COMMITTED = ValidTxns(1000, 1001)
SEEDS = range(300)
MOST_BASES = 4


class Judge(Protocol):
    def ask(
        self, table: Path, write_ids: ValidWriteIds, txns: ValidTxns, *, as_cleaner: bool
    ) -> _AcidState | str: ...


def in_every_order(
    names: list[str], write_ids: ValidWriteIds, txns: ValidTxns
) -> list[_AcidState | str]:
    """Our answers over all orders of the bases, each answer once."""
    directories = found(*names)
    bases = [directory for directory in directories if isinstance(directory.acid, Base)]
    others = [directory for directory in directories if not isinstance(directory.acid, Base)]
    answers: list[_AcidState | str] = []
    for order in permutations(bases):
        try:
            answer: _AcidState | str = as_sets(state_seen([*order, *others], write_ids, txns))
        except NotEnoughHistory:
            answer = "Not enough history"
        if answer not in answers:
            answers.append(answer)
    return answers


def as_sets(state: _AcidState | str) -> _AcidState | str:
    """The order of what goes says nothing; the order of what is read does."""
    if isinstance(state, str):
        return "Not enough history" if "Not enough history" in state else state
    obsolete, aborted = tuple(sorted(state.obsolete)), tuple(sorted(state.aborted))
    return _AcidState(state.base, state.current, obsolete, aborted)


@pytest.mark.parametrize("case", FIVE_LISTINGS, ids=lambda case: case.title)
def test_hive_calls_obsolete_in_the_five_listings_what_we_do(
    case: Case, tmp_path: Path, hive: Judge
) -> None:
    table = build(tmp_path / "t", case.directories)
    for ids in (reader(case.write_ids), cleaner(case.write_ids)):
        as_cleaner = isinstance(ids, CleanerWriteIds)
        answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=as_cleaner)
        assert isinstance(answer, _AcidState)
        assert sorted(answer.obsolete) == sorted(case.obsolete)
        assert as_sets(answer) == as_sets(acid_state(found(*case.directories), ids))


@pytest.mark.slow
def test_hive_answers_random_legal_histories_as_we_do(tmp_path: Path, hive: Judge) -> None:
    """Each look that a reader or cleaner took, at the directories as they are at the end.

    Each also without the look's transactions, for our cleaner knows none of them: then compactions
    that came later, or died, are seen as well.
    """
    asked = ambiguous = 0
    for seed in SEEDS:
        history = random_history(seed)
        if sum(name.startswith("base") for name in history.directories) > MOST_BASES:
            continue
        table = build(tmp_path / str(seed), dict.fromkeys(history.directories, 1))
        for look, txns in history.looks:
            for ids in (look, CleanerWriteIds.of(look)):
                for known in (txns, ALL_COMMITTED):
                    as_cleaner = isinstance(ids, CleanerWriteIds)
                    answer = as_sets(hive.ask(table, ids, known, as_cleaner=as_cleaner))
                    ours = in_every_order(history.directories, ids, known)
                    assert answer in ours, (seed, str(ids), str(known), as_cleaner)
                    asked += 1
                    ambiguous += len(ours) > 1
                    check_surely_obsolete(history.directories, ids, known, answer, ours)
    assert asked >= 3000
    assert ambiguous <= asked // 20, (asked, ambiguous)


def check_surely_obsolete(
    names: list[str],
    ids: ValidWriteIds,
    txns: ValidTxns,
    answer: _AcidState | str,
    ours: list[_AcidState | str],
) -> None:
    if isinstance(answer, str) or any(isinstance(our, str) for our in ours):
        with pytest.raises(NotEnoughHistory):
            settled_state(visible(found(*names), txns), ids)
        return
    surely = set(settled_state(visible(found(*names), txns), ids).obsolete)
    assert surely <= set(answer.obsolete)
    assert len(ours) > 1 or surely == set(answer.obsolete)


def test_hive_sees_an_empty_directory_as_a_cleaner_and_not_as_a_reader(
    tmp_path: Path, hive: Judge
) -> None:
    table = build(tmp_path / "t", {"delta_0000001_0000002": 1})
    (table / "delta_0000001_0000001_0000").mkdir()
    ids = reader("default.t:2:9223372036854775807::")
    for as_cleaner, obsolete in ((True, ("delta_0000001_0000001_0000",)), (False, ())):
        answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=as_cleaner)
        assert isinstance(answer, _AcidState)
        assert answer.obsolete == obsolete


@pytest.mark.parametrize("name", ["base_x", "delta_0000001", "delta_0000001_x", "base_0000003_v"])
def test_hive_fails_the_whole_call_at_one_bad_name(name: str, tmp_path: Path, hive: Judge) -> None:
    table = build(tmp_path / "t", {"delta_0000001_0000002": 1, name: 1})
    ids = reader("default.t:2:9223372036854775807::")
    assert isinstance(hive.ask(table, ids, ALL_COMMITTED, as_cleaner=True), str)


MARKER = '{"thisFileVersion":"0","dataFormat":"compacted"}'
NO_ROWS = ("delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000")


def test_hive_reads_a_compacted_base_of_hive_3_though_its_last_write_id_aborted(
    tmp_path: Path, hive: Judge
) -> None:
    """Hive 4's own cleaner calls base_6 aborted: its listing leaves the marker file out."""
    names = ("base_0000003", "delta_0000004_0000006", "base_0000006")
    table = build(tmp_path / "t", dict.fromkeys(names, 1))
    (table / "base_0000006" / "_metadata_acid").write_text(MARKER)
    ids = reader("default.t:6:9223372036854775807::6")
    answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=False)
    assert isinstance(answer, _AcidState)
    assert (answer.base, answer.obsolete) == ("base_0000006", names[:2])
    vacuum = VacuumFields("/t", names[2:], 1, 6, str(ids), VacuumKind.MAJOR).compaction()
    assert (
        tuple(directory.name for directory in vacuum.removable(found(*names)).obsolete)
        == answer.obsolete
    )
    compacted = [FoundDirectory.named(name, compacted=name == names[2]) for name in names]
    assert as_sets(acid_state(compacted, ids)) == as_sets(answer)


def test_hive_reads_from_the_empty_base_that_hive_3_writes(tmp_path: Path, hive: Judge) -> None:
    table = build(tmp_path / "t", dict.fromkeys(NO_ROWS, 1))
    (table / "base_0000002").mkdir()
    (table / "base_0000002" / "_orc_acid_version").write_text("2")
    (table / "base_0000002" / "_metadata_acid").write_text(MARKER)
    ids = reader("default.t:2:9223372036854775807::")
    answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=False)
    assert isinstance(answer, _AcidState)
    assert (answer.base, answer.obsolete) == ("base_0000002", NO_ROWS)


def test_hives_cleaner_fails_at_an_object_stores_marker_that_its_reader_ignores(
    tmp_path: Path, hive: Judge
) -> None:
    table = build(tmp_path / "t", {"delta_0000001_0000001_0000": 1})
    (table / "delta_0000001_0000001_0000_$folder$").touch()
    ids = reader("default.t:2:9223372036854775807::")
    assert isinstance(hive.ask(table, ids, ALL_COMMITTED, as_cleaner=True), str)
    answer = hive.ask(table, ids, ALL_COMMITTED, as_cleaner=False)
    assert isinstance(answer, _AcidState)
    assert answer.current == ("delta_0000001_0000001_0000",)
