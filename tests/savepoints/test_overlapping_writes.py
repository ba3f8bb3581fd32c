"""Savepoints of commits that other writes overlapped: they have what a restore to them needs.

Hudi chooses the slices of a savepoint by the times at which writes were requested, and rolls back
those that completed later (compactions: that were requested later). Where both differ, its own
savepoint misses files of the table that its restore leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hudi_tables import HandMade, at, end_of
from support.savepoint_and_restore import create_savepoint, restore, savepoint_files
from tidegate.events import RestoreCompleted, RestoreRejected, SavepointCreated, SavepointRejected
from tidegate.events.reasons import Reason
from tidegate.storage import Storage

G0 = {"p0": "g0"}
G1 = {"p1": "g1"}
BUILT = pytest.mark.parametrize("version", [9, 8])


def merge_on_read(root: Path) -> HandMade:
    return HandMade(root / "orders", 9).create(hoodie__table__type="MERGE_ON_READ")


def files_of(table: HandMade, instant: str, partition: str = "p0") -> set[str]:
    return set(savepoint_files(table, instant)[partition])


def restored(table: HandMade, instant: str) -> set[str]:
    """The data files of p0 after a restore, which has to succeed."""
    last = restore(table, instant)
    assert isinstance(last, RestoreCompleted), last
    names = {path.name for path in (table.path / "p0").iterdir()}
    return {name for name in names if not name.endswith((".crc", "_metadata"))}


def base(minute: int, group: str = "g0") -> str:
    return f"{group}_0-1-2_{at(minute)}.parquet"


def log(minute: int) -> str:
    return f".g0_{at(minute)}.log.1_0-1-2"


def compacted_meanwhile(table: HandMade) -> str:
    """The savepointed delta commit itself is overtaken."""
    table.delta(at(1), G0, None)
    table.schedule(at(4), G0)
    table.compact(at(4), G0, at(1))
    table.delta(at(3), G0, at(1), completed=at(5))
    return at(3)


def compacted_before(table: HandMade) -> str:
    """A delta commit before the savepointed one is overtaken."""
    table.delta(at(1), G0 | G1, None)
    table.schedule(at(4), G0)
    table.compact(at(4), G0, at(1))
    table.delta(at(3), G0, at(1), completed=at(5))
    table.delta(end_of(at(3)), G1, at(1), completed=at(6))
    return end_of(at(3))


def compaction_is_pending(table: HandMade) -> str:
    table.delta(at(1), G0, None)
    table.schedule(at(4), G0)
    table.delta(at(3), G0, at(1), completed=at(5))
    return at(3)


@pytest.mark.parametrize("of", [compacted_meanwhile, compacted_before, compaction_is_pending])
def test_a_log_file_that_a_later_compaction_overtook_is_kept(
    tmp_path: Path, of: Callable[[HandMade], str]
) -> None:
    """The restore rolls the compaction back: then it is of the slice before again."""
    table = merge_on_read(tmp_path)
    commit = of(table)

    assert isinstance(create_savepoint(table, commit), SavepointCreated)

    assert files_of(table, commit) == {base(1), log(3)}
    assert restored(table, commit) == {base(1), log(3)}


@BUILT
def test_what_a_write_followed_that_completed_later_is_kept(tmp_path: Path, version: int) -> None:
    """That write is rolled back, although it was requested earlier, and complete by now."""
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    table.commit(at(3), at(1), G1)
    table.commit(at(2), at(1), G0, completed=at(5))

    assert isinstance(create_savepoint(table, at(3)), SavepointCreated)

    assert files_of(table, at(3)) == {base(1)}
    assert files_of(table, at(3), "p1") == {base(3, "g1")}
    assert restored(table, at(3)) == {base(1)}


@BUILT
def test_what_a_clustering_replaced_that_completed_later_is_kept(
    tmp_path: Path, version: int
) -> None:
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    table.commit(at(3), at(1), G1)
    table.replace(at(2), {"p0": ["g0"]}, {"p0": "g9"}, completed=at(5))

    assert isinstance(create_savepoint(table, None), SavepointCreated)

    assert files_of(table, at(3)) == {base(1)}
    assert restored(table, at(3)) == {base(1)}


def test_what_a_later_write_that_completed_earlier_wrote_is_kept(tmp_path: Path) -> None:
    """A restore to the commit that completed last leaves it: Hudi's does, ours refuses."""
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1))
    table.commit(at(3), at(1), G0)
    table.commit(at(2), at(1), G1, completed=at(5))

    assert isinstance(create_savepoint(table, at(2)), SavepointCreated)
    table.commit(at(6), at(3), G0)

    assert files_of(table, at(2)) == {base(1), base(3)}


def test_in_version_6_times_of_completion_prove_nothing(tmp_path: Path) -> None:
    """They are times of modification: of a copied table, those of the copying, in any order.

    Hudi's restore would roll back what was copied late. Ours refuses, because the savepoint has it.
    """
    table = HandMade(tmp_path / "orders", 6).create()
    table.commit(at(1), completed=at(9))
    table.commit(at(3), at(1), G1, completed=at(8))

    assert isinstance(create_savepoint(table, at(3)), SavepointCreated)

    assert files_of(table, at(3)) == {base(1)}
    refused = restore(table, at(3))
    assert isinstance(refused, RestoreRejected)
    assert (table.path / "p0" / base(1)).exists()


def test_a_savepoint_is_refused_if_what_such_a_write_followed_is_gone(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1))
    table.commit(at(3), at(1), G1)
    table.commit(at(2), at(1), G0, completed=at(5))
    (table.path / "p0" / base(1)).unlink()

    refused = create_savepoint(table, at(3))

    assert isinstance(refused, SavepointRejected)
    assert refused.reason == Reason.MISSING_FILES
    assert "g0 of p0" in refused.message


def test_none_is_derived_from_one_whose_commit_was_overlapped(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "orders", 9).create()
    table.commit(at(1))
    table.commit(at(3), at(1), G1)
    table.commit(at(2), at(1), G0, completed=at(5))
    create_savepoint(table, at(3))
    table.commit(at(6), at(3), G1)

    outcome = create_savepoint(table, at(6))

    assert isinstance(outcome, SavepointCreated)
    assert outcome.listed_because == f"a write overlapped commit {at(3)}"
    assert files_of(table, at(6)) == {base(2)}


def archive(table: HandMade, *names: str) -> None:
    for name in names:
        for file in table.timeline.glob(f"{name}*"):
            file.unlink()


def test_a_compaction_whose_plan_an_archiver_has_taken_already_may_be_one(tmp_path: Path) -> None:
    """Hudi removes the pending files of all that it archives first. It may die in between."""
    table = merge_on_read(tmp_path)
    table.delta(at(1), G0, None)
    table.schedule(at(4), G0)
    table.delta(at(3), G0, at(1), completed=at(5))
    table.compact(at(4), G0, at(1))
    table.delta(at(6), G1, None)
    archive(table, at(1), at(3), f"{at(4)}.compaction")

    assert isinstance(create_savepoint(table, at(6)), SavepointCreated)

    assert files_of(table, at(6)) == {base(4), log(3)}


def test_no_plan_is_asked_for_that_is_not_on_the_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old slices may stay for years (Hudi's policy KEEP_LATEST_FILE_VERSIONS)."""
    table = merge_on_read(tmp_path)
    table.delta(at(1), G0 | G1, None)
    for group in (G0, G1):
        table.delta(at(2) if group is G0 else at(4), group, at(1))
        table.schedule(at(3) if group is G0 else at(5), group)
        table.compact(at(3) if group is G0 else at(5), group, at(1))
    table.delta(at(6), {"p2": "g2"}, None)
    archive(table, *map(at, range(1, 6)))
    asked: list[str] = []
    read = Storage.read

    def counted(storage: Storage, location: str, *limits: int) -> bytes:
        asked.append(location)
        return read(storage, location, *limits)

    monkeypatch.setattr(Storage, "read", counted)

    assert isinstance(create_savepoint(table, at(6)), SavepointCreated)

    assert not [path for path in asked if "compaction" in path]
    assert files_of(table, at(6)) == {base(3), log(2)}
