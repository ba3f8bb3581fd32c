"""Histories of merge-on-read tables, written by real Hudi."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support.real_hudi import RealTable, Row, rows
from tidegate.hudi.instant import Action, Instant
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.storage import Storage

if TYPE_CHECKING:
    from support.hudi_records import RealHudi

SCHEDULED: Final = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
COMPACTED: Final = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
LOG_COMPACTED: Final = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
}
CLEANED: Final = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
CLUSTERED: Final = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


@dataclass(frozen=True)
class Moment:
    """A commit, with what the table showed when it was the last one."""

    instant: str
    rows: list[Row]
    optimised: list[Row]


def moment_of(table: RealTable) -> Moment:
    last = loaded(table).timeline.last_completed_write()
    assert last is not None
    return Moment(last.timestamp, table.read(), table.read("read_optimized"))


def loaded(table: RealTable) -> HudiTable:
    return load_table(Storage(), table.location)


def completed(table: RealTable, action: Action) -> list[Instant]:
    return [i for i in loaded(table).timeline.completed_writes if i.action is action]


def interrupt(table: RealTable) -> None:
    """Let the last write look as if its writer had died right before it completed."""
    now = loaded(table)
    Path(now.path_of(now.timeline.completed_writes[-1])).unlink()


@dataclass(frozen=True)
class History:
    """A table with everything that happens to one, and its moments in order."""

    table: RealTable
    pending: Moment
    """a compaction is pending: one group has been updated since, the other has not"""
    plain: Moment
    """that compaction is complete, the groups were updated since"""
    compacted: Moment
    """another compaction is complete, and updates since"""


def write_history(hudi: RealHudi, path: Path, version: int, *, metadata_table: bool) -> History:
    table = RealTable(hudi, path, version, metadata_table, merge_on_read=True)
    table.write(rows(range(6), "first", 1), "insert")
    table.write(rows(range(4), "second", 2), more=SCHEDULED)
    table.write([(0, "p0", 3, "third")])
    pending = moment_of(table)
    table.call("run_compaction", op="run")
    table.write(rows(range(3), "fourth", 4))
    plain = moment_of(table)
    table.write(rows(range(2), "fifth", 5), more=COMPACTED)
    table.write(rows(range(3), "sixth", 6))
    compacted = moment_of(table)
    table.write(rows(range(2), "seventh", 7), more=LOG_COMPACTED)
    table.write(rows(range(4), "eighth", 8), more=CLUSTERED)
    table.write([(60, "p1", 9, "overwritten")], "insert_overwrite")
    table.write([(50, "p2", 10, "a partition that is new")], "insert")
    table.write([(0, "p0", 11, "last"), (50, "p2", 11, "last")], more=SCHEDULED)
    table.write([(50, "p2", 12, "in flight"), (70, "p0", 12, "in flight")])
    interrupt(table)
    return History(table, pending, plain, compacted)
