"""Savepoints and restores of merge-on-read tables, with real Hudi on byte copies as the judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.hudi_tables import data_files
from support.judged import restore, savepoint, savepoint_files, timeline_of
from support.merge_on_read import CLEANED, COMPACTED, History, Moment, loaded, write_history
from support.real_hudi import RealTable, rows
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated
from tidegate.hudi.instant import Action, InstantState

EVERY_KIND = pytest.mark.parametrize(
    "history",
    [
        pytest.param((9, False), id="version 9"),
        pytest.param((6, False), id="version 6"),
        pytest.param((8, True), id="version 8 with a metadata table"),
        pytest.param((9, True), id="version 9 with a metadata table"),
        pytest.param((6, True), id="version 6 with a metadata table"),
    ],
    indirect=True,
)


@pytest.fixture
def history(request: pytest.FixtureRequest, hudi: RealHudi) -> History:
    version, metadata_table = request.param

    def made() -> History:
        path = hudi.root / "lake/orders"
        return write_history(hudi, path, version, metadata_table=metadata_table)

    return hudi.shared(f"history of {version}{' indexed' * metadata_table}", made)


@EVERY_KIND
def test_the_savepoint_of_every_commit_is_hudi_s_own(history: History, lake: Path) -> None:
    ours, theirs = (history.table.copy(lake / name / "orders") for name in ("ours", "theirs"))
    commits = loaded(history.table).timeline.completed_writes
    assert {i.action for i in commits} == {
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.REPLACE_COMMIT,
    }

    for commit in commits:
        outcome = savepoint(ours, commit.timestamp, ThreadMap())
        theirs.call("create_savepoint", commit_time=commit.timestamp)

        assert isinstance(outcome, SavepointCreated), outcome
        assert savepoint_files(ours) == savepoint_files(theirs), commit


def without_orphans(restored: RealTable, before: RealTable) -> set[str]:
    """The files but for what Hudi leaves of slices that a pending compaction began in version 6.

    It rolls back the compaction, but not the log files that were written to its slices. Once the
    timeline begins after them, they hide the base file before. Ours removes such a slice.
    """
    begun = [i.timestamp for i in loaded(before).timeline.of_action(Action.COMPACTION)]
    return {
        name for name in data_files(restored.path) if not any(f"_{t}.log." in name for t in begun)
    }


def both_restored(history: History, moment: Moment, root: Path) -> tuple[RealTable, RealTable]:
    """Two copies with a savepoint at a moment, one restored by us, the other by Hudi."""
    ours, theirs = (history.table.copy(root / name / "orders") for name in ("ours", "theirs"))
    assert isinstance(savepoint(ours, moment.instant, ThreadMap()), SavepointCreated)
    *_, last = restore(ours, moment.instant, ThreadMap())
    assert isinstance(last, RestoreCompleted), last
    theirs.call("create_savepoint", commit_time=moment.instant)
    theirs.call("rollback_to_savepoint", instant_time=moment.instant)
    remove_clusterings(theirs)
    return ours, theirs


def remove_clusterings(table: RealTable) -> None:
    """Remove what Hudi's restore leaves of a clustering: its next write would fail on it."""
    now = loaded(table)
    for left in now.timeline.of_action(Action.CLUSTERING):
        for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
            Path(now.path_of(replace(left, state=state))).unlink(missing_ok=True)


def check_rows(table: RealTable, moment: Moment) -> None:
    assert table.read() == moment.rows
    assert table.read("read_optimized") == moment.optimised


@EVERY_KIND
def test_a_restore_over_everything_is_hudi_s_own_and_so_is_what_follows(
    history: History, lake: Path
) -> None:
    moment = history.plain
    ours, theirs = both_restored(history, moment, lake)

    for table in (ours, theirs):
        check_rows(table, moment)
    assert data_files(ours.path) == without_orphans(theirs, history.table)
    assert timeline_of(ours) == timeline_of(theirs)

    for table in (ours, theirs):
        table.write([(0, "p0", 20, "after"), (80, "p2", 20, "after")])
        table.write([(1, "p1", 21, "after")], more=COMPACTED | CLEANED)
        table.call(
            "create_savepoint", commit_time=loaded(table).timeline.completed_writes[-1].timestamp
        )
    assert ours.read() == theirs.read()
    assert ours.read("read_optimized") == theirs.read("read_optimized")


@EVERY_KIND
def test_a_restore_to_after_a_compaction_is_hudi_s_own(history: History, lake: Path) -> None:
    ours, theirs = both_restored(history, history.compacted, lake)

    for table in (ours, theirs):
        check_rows(table, history.compacted)
    assert data_files(ours.path) == without_orphans(theirs, history.table)
    assert timeline_of(ours) == timeline_of(theirs)


@EVERY_KIND
def test_a_restore_to_a_commit_during_a_compaction_keeps_the_compaction(
    history: History, lake: Path
) -> None:
    """It completed after the savepoint's commit. Hudi's own restore of version 9 fails on it."""
    moment = history.pending
    table = history.table.copy(lake / "ours/orders")
    savepoint(table, moment.instant, ThreadMap())

    *_, last = restore(table, moment.instant, ThreadMap())

    assert isinstance(last, RestoreCompleted)
    assert table.read() == moment.rows
    table.write([(0, "p0", 20, "after"), (1, "p1", 20, "after")], more=COMPACTED)
    rows = {row[0]: row for row in moment.rows}
    rows |= {0: (0, "p0", 20, "after"), 1: (1, "p1", 20, "after")}
    assert table.read() == sorted(rows.values())


@EVERY_KIND
def test_hudi_finishes_what_we_died_in(history: History, lake: Path) -> None:
    moment = history.compacted
    table = history.table.copy(lake / "killed/orders")
    savepoint(table, moment.instant, ThreadMap())
    with pytest.raises(Killed):
        restore(table, moment.instant, ThreadMap(1), Stepwise(table.path.parent, killed_at(21)))
    assert loaded(table).timeline.pending_restores

    table.call("rollback_to_savepoint", instant_time=moment.instant)

    check_rows(table, moment)


def test_like_hudi_s_our_savepoint_finds_the_slice_of_a_delta_commit_that_a_compaction_overtook(
    hudi: RealHudi,
) -> None:
    """Its completion time is moved: two writers at once would need luck to do that."""
    table = RealTable(hudi, hudi.root / "lake/orders", 9, metadata_table=False, merge_on_read=True)
    table.write(rows(range(4), "first", 1), "insert")
    table.write([(0, "p0", 2, "overtaken")])
    table.write([(1, "p1", 3, "third")], more=COMPACTED)
    now = loaded(table)
    (_, overtaken, third, compaction) = now.timeline.completed_writes
    assert (third.action, compaction.action) == (Action.DELTA_COMMIT, Action.COMMIT)
    late = replace(overtaken, completion=compaction.completion)
    Path(now.path_of(overtaken)).rename(now.path_of(late))
    twin = table.copy(hudi.root / "twin/orders")

    savepoint(table, compaction.timestamp, ThreadMap())
    twin.call("create_savepoint", commit_time=compaction.timestamp)

    assert savepoint_files(table) == savepoint_files(twin)
    assert any(f"_{overtaken.timestamp}.log." in name for name in savepoint_files(table)["p0"])
