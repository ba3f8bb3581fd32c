"""A delta commit that was under way while a compaction was requested, and was archived since.

Its log file is of the slice that the compaction began, which only Hudi's archive and the
compaction's plan say. Judged by real Hudi.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.judged import restore, savepoint, savepoint_files
from support.merge_on_read import CLEANED, COMPACTED, completed, loaded, moment_of
from support.real_hudi import RealTable, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted
from tidegate.hudi.instant import Action, Instant

ARCHIVED_ONLY = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.automatic": "false",
    "hoodie.clean.commits.retained": "1",
}


def overtaken(table: RealTable) -> Instant:
    """Write the table, up to the delta commit's archiving; its base file is not cleaned.

    Two writers at once would need luck to do that: the delta commit is taken off the timeline while
    the compaction runs, as if its writer had not completed it yet.
    """
    table.write(rows(range(4), "first", 1), "insert")
    table.write([(0, "p0", 2, "second")])
    table.write([(0, "p0", 3, "overtaken")])
    now = loaded(table)
    late = now.timeline.completed_writes[-1]
    content = Path(now.path_of(late)).read_bytes()
    Path(now.path_of(late)).unlink()
    table.call("run_compaction", op="schedule", options="hoodie.compact.inline.max.delta.commits=1")
    table.call("run_compaction", op="run")
    (compaction,) = completed(table, Action.COMMIT)
    late = replace(late, completion=str(int(compaction.timestamp) + 1))
    Path(now.path_of(late)).write_bytes(content)
    table.write([(1, "p1", 4, "third")], more=ARCHIVED_ONLY)
    return late


@pytest.mark.parametrize("version", [9, pytest.param(8)])
def test_the_log_file_of_an_archived_delta_commit_is_of_the_slice_that_overtook_it(
    hudi: RealHudi, version: int
) -> None:
    path = hudi.root / "lake/orders"
    table = RealTable(hudi, path, version, metadata_table=False, merge_on_read=True)
    late = overtaken(table)
    left = {write.timestamp for write in loaded(table).timeline.writes}
    assert late.timestamp not in left
    assert completed(table, Action.COMMIT)
    moment = moment_of(table)
    assert (0, "p0", 3, "overtaken") in moment.rows
    twin = table.copy(hudi.root / "twin/orders")

    savepoint(table, moment.instant, ThreadMap())
    twin.call("create_savepoint", commit_time=moment.instant)

    assert savepoint_files(table) == savepoint_files(twin)
    # the cleaner removes what no savepoint keeps
    for ts in (5, 6, 7):
        table.write([(0, "p0", ts, "later")], more=COMPACTED | CLEANED)
    *_, last = restore(table, moment.instant, ThreadMap())
    assert isinstance(last, RestoreCompleted)
    assert table.read() == moment.rows
