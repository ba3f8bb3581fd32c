"""Every query and every later service of Hudi after a restore: ours and Hudi's own on copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.aftermath import shown, starts, written_on
from support.hudi_records import RealHudi
from support.judged import restore, savepoint
from support.merge_on_read import CLUSTERED, COMPACTED, moment_of
from support.real_hudi import RealTable, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "metadata_table", "merge_on_read"),
    [
        pytest.param(9, True, False, id="copy-on-write 9, metadata"),
        pytest.param(6, False, True, id="merge-on-read 6"),
        pytest.param(9, False, True, id="merge-on-read 9"),
        pytest.param(8, True, True, id="merge-on-read 8, metadata"),
        pytest.param(8, False, False, id="copy-on-write 8"),
        pytest.param(6, True, False, id="copy-on-write 6, metadata"),
    ],
)
def test_every_query_and_every_later_service_finds_what_it_finds_after_hudi_s_own_restore(
    live_hudi: RealHudi, tmp_path: Path, version: int, *, metadata_table: bool, merge_on_read: bool
) -> None:
    path = tmp_path / "lake/orders"
    table = RealTable(live_hudi, path, version, metadata_table, merge_on_read=merge_on_read)
    table.write(rows(range(8), "first", 1), "insert")
    table.write(rows(range(4), "second", 2))
    table.write([(1, "p1", 3, "third"), (9, "p1", 3, "third")])
    moment, times = moment_of(table), starts(table)
    before = shown(table, times)
    assert before[f"changed after {times[-1]}"] == []
    assert before[f"changed after {times[-2]}"] == [(1, "p1", 3, "third"), (9, "p1", 3, "third")]
    assert before[f"changed after {times[0]}"] == moment.rows
    theirs = table.copy(tmp_path / "theirs/orders")
    assert isinstance(savepoint(table, moment.instant, ThreadMap()), SavepointCreated)
    theirs.call("create_savepoint", commit_time=moment.instant)
    later = COMPACTED if merge_on_read else CLUSTERED
    for copy in (table, theirs):
        copy.write([(0, "p0", 4, "bad"), (50, "p2", 4, "bad")])
        copy.write([(3, "p1", 5, "bad")], more=later if merge_on_read else {})
        copy.write([(3, "p1", 6, "bad")], "delete")
    assert shown(table, times) != before

    *_, last = restore(table, moment.instant, ThreadMap())
    theirs.call("rollback_to_savepoint", instant_time=moment.instant)

    assert isinstance(last, RestoreCompleted), last
    assert shown(table, times) == before
    assert shown(theirs, times) == before
    assert written_on(table, moment.instant, 20) == written_on(theirs, moment.instant, 20)
