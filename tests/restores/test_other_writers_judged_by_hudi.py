"""Writers that are rare: non-blocking ones, change data, a log compaction that did not end.

Our savepoint and restore on one copy, Hudi's own on another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from py4j.protocol import Py4JJavaError

from support.gated_writer import writing
from support.hudi_records import RealHudi
from support.judged import restore, savepoint, savepoint_files
from support.merge_on_read import LOG_COMPACTED, Moment, interrupt, loaded, moment_of
from support.real_hudi import RealTable, Row, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, RestoreRejected, SavepointCreated
from tidegate.hudi.instant import Action, InstantState

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]

NON_BLOCKING: Final = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.bucket.index.hash.field": "id",
}


def both_restored(table: RealTable, moment: Moment, root: Path) -> tuple[RealTable, RealTable]:
    """Two copies with a savepoint at a moment, one restored by us, the other by Hudi."""
    ours, theirs = (table.copy(root / name / "orders") for name in ("ours", "theirs"))
    assert isinstance(savepoint(ours, moment.instant, ThreadMap()), SavepointCreated)
    theirs.call("create_savepoint", commit_time=moment.instant)
    assert savepoint_files(ours) == savepoint_files(theirs)
    *_, last = restore(ours, moment.instant, ThreadMap())
    assert isinstance(last, RestoreCompleted), last
    theirs.call("rollback_to_savepoint", instant_time=moment.instant)
    return ours, theirs


def check_written_on(
    table: RealTable, moment: Moment, more: Mapping[str, str] | None = None
) -> None:
    """Check that it has the moment's rows, and those and a new one after Hudi's next write."""
    assert table.read() == moment.rows
    after: Row = (1, "p1", 20, "after")
    table.write([after], more=more or {})
    assert table.read() == sorted((({r[0]: r for r in moment.rows}) | {1: after}).values())


def test_non_blocking_writers_of_one_file_group(live_hudi: RealHudi, tmp_path: Path) -> None:
    """One begins, another begins and commits, then the first commits: of one group of files."""
    table = RealTable(live_hudi, tmp_path / "o/orders", 9, metadata_table=False, merge_on_read=True)
    table.write(rows(range(6), "first", 1), "upsert", NON_BLOCKING)
    slow: list[Row] = [(0, "p0", 3, "slow"), (2, "p0", 3, "slow")]
    with writing(table, tmp_path / "gate", slow, more=NON_BLOCKING) as writer:
        table.write([(2, "p0", 2, "quick"), (4, "p0", 2, "quick")], more=NON_BLOCKING)
        quick = moment_of(table)
    assert writer.error is None
    assert writer.is_committed
    assert writer.instant < quick.instant
    table.write([(3, "p1", 4, "third")], more=NON_BLOCKING)
    third = moment_of(table)
    table.write([(5, "p1", 5, "bad"), (2, "p0", 5, "bad")], more=NON_BLOCKING)

    ours, theirs = both_restored(table, third, tmp_path / "third")
    assert theirs.read() == third.rows
    check_written_on(ours, third, NON_BLOCKING)

    # the slow write goes too: it completed after the savepoint's commit. Hudi's restore fails on it
    ours, theirs = (table.copy(tmp_path / f"{name}/orders") for name in ("ours", "theirs"))
    assert isinstance(savepoint(ours, quick.instant, ThreadMap()), SavepointCreated)
    theirs.call("create_savepoint", commit_time=quick.instant)
    *_, last = restore(ours, quick.instant, ThreadMap())
    assert isinstance(last, RestoreCompleted), last
    check_written_on(ours, quick, NON_BLOCKING)
    with pytest.raises(Py4JJavaError, match="please rollback greater commits first"):
        theirs.call("rollback_to_savepoint", instant_time=quick.instant)

    # to the slow write, the quick one would stay, which began after it and completed before
    ours = table.copy(tmp_path / "slow/orders")
    assert isinstance(savepoint(ours, writer.instant, ThreadMap()), SavepointCreated)
    shown = ours.read()
    (refused,) = restore(ours, writer.instant, ThreadMap())
    assert isinstance(refused, RestoreRejected)
    assert refused.reason == "later-commit-stays"
    assert ours.read() == shown


CHANGE_DATA: Final = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}


def changes(table: RealTable) -> list[tuple[object, ...]]:
    """What a query of change data gives, from the beginning on."""
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    frame = table.hudi.session().read.format("hudi").options(**options).load(table.location)
    return sorted(
        (row["op"], *(_data_of(row[side]) for side in ("before", "after")))
        for row in frame.collect()
    )


def _data_of(record: str | None) -> str:
    """A record without Hudi's own columns, which name files and times."""
    columns: dict[str, object] = json.loads(record or "{}") or {}
    return json.dumps({name: columns[name] for name in columns if not name.startswith("_hoodie")})


# on a merge-on-read table of version 6 Hudi's own query of change data fails
@pytest.mark.parametrize(("version", "merge_on_read"), [(9, False), (9, True), (6, False)], ids=str)
def test_a_query_of_change_data_finds_what_it_found_before(
    live_hudi: RealHudi, tmp_path: Path, version: int, *, merge_on_read: bool
) -> None:
    table = RealTable(
        live_hudi, tmp_path / "o/orders", version, metadata_table=False, merge_on_read=merge_on_read
    )
    table.write(rows(range(6), "first", 1), "insert", CHANGE_DATA)
    table.write(rows(range(4), "second", 2), more=CHANGE_DATA)
    moment, before = moment_of(table), changes(table)
    assert {change[0] for change in before} == {"i", "u"}
    table.write([(1, "p1", 3, "bad"), (9, "p1", 3, "bad")], more=CHANGE_DATA)
    table.write([(2, "p0", 4, "bad")], "delete", CHANGE_DATA)
    assert changes(table) != before

    ours, theirs = both_restored(table, moment, tmp_path)

    assert changes(ours) == before
    assert changes(theirs) == before
    for copy in (ours, theirs):
        check_written_on(copy, moment, CHANGE_DATA)
    assert changes(ours) == changes(theirs)


@pytest.mark.parametrize("version", [9, 8])
def test_a_log_compaction_that_did_not_end(
    live_hudi: RealHudi, tmp_path: Path, version: int
) -> None:
    """It begins before the savepoint's commit, or after it. Hudi's own restore fails on it."""
    table = RealTable(
        live_hudi, tmp_path / "o/orders", version, metadata_table=False, merge_on_read=True
    )
    table.write(rows(range(6), "first", 1), "insert")
    for ts in range(2, 5):
        table.write([(0, "p0", ts, f"up {ts}"), (1, "p1", ts, f"up {ts}")])
    before = moment_of(table)
    table.write([(2, "p0", 5, "up 5")], more=LOG_COMPACTED)
    interrupt(table)
    merging = loaded(table).timeline.of_action(Action.LOG_COMPACTION, InstantState.INFLIGHT)
    assert len(merging) == 1
    table.write([(3, "p1", 6, "up 6")])
    later = moment_of(table)
    assert before.instant < merging[0].timestamp < later.instant
    table.write([(0, "p0", 7, "bad"), (3, "p1", 7, "bad")])
    assert loaded(table).timeline.of_action(Action.LOG_COMPACTION, InstantState.INFLIGHT) == merging

    for moment in (before, later):
        ours, theirs = (table.copy(tmp_path / f"{n}-{moment.instant}/orders") for n in "ot")
        assert isinstance(savepoint(ours, moment.instant, ThreadMap()), SavepointCreated)
        theirs.call("create_savepoint", commit_time=moment.instant)
        assert savepoint_files(ours) == savepoint_files(theirs)

        *_, last = restore(ours, moment.instant, ThreadMap())

        assert isinstance(last, RestoreCompleted), last
        check_written_on(ours, moment)
        with pytest.raises(Py4JJavaError, match="invalid action name logcompaction"):
            theirs.call("rollback_to_savepoint", instant_time=moment.instant)
