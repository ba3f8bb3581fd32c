"""Dry run of a savepoint removal: timeline files that go, and data files that Hudi may clean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.events import SavepointMark
from tidegate.events.reasons import Reason
from tidegate.savepoints.pins import newest_files, read_savepoints
from tidegate.savepoints.removal_plan import RemovalPlan, check_no_restore, savepoint_on
from tidegate.storage import ParallelMap, join
from tidegate.tables.hudi import open_table
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class PlannedRemoval:
    """The effect of a person's request to remove a savepoint."""

    made_by: str | None
    mark: SavepointMark | None
    files: int
    """Number of files that the savepoint keeps."""
    timeline_files: Sequence[str]
    """Paths of the removed files."""
    freed: Sequence[str]
    """Files (relative to the table) in neither the newest commit nor another savepoint."""
    freed_bytes: int


def plan_freeing(
    warehouse: Warehouse, location: str, instant: str, parallel_map: ParallelMap
) -> PlannedRemoval:
    """Plan the removal of a savepoint at a person's request. Changes nothing.

    Lists the table and reads the metadata of every savepoint.

    Raises:
        Refused: there is no such savepoint, or a restore is pending.
        FormatError: a file of the timeline can't be read.
        NotFound: a file of the timeline was removed meanwhile.
    """
    table = open_table(warehouse, location)
    check_no_restore(table.timeline)
    found = savepoint_on(table.timeline, instant)
    if found is None:
        raise Refused(Reason.NO_SUCH_SAVEPOINT, f"there is no savepoint {instant}")
    savepoints = {i.timestamp: metadata for i, metadata in read_savepoints(table)}
    own = savepoints.pop(instant, None)
    freed = newest_files(table, parallel_map).pinned(own.files) if own else {}
    for other in savepoints.values():
        for path, names in other.files.items():
            for name in names:
                freed.pop((path, name), None)
    files = {found, RemovalPlan(found).inflight}
    return PlannedRemoval(
        made_by=own.by if own else None,
        mark=SavepointMark.parse(own.comment)[0] if own else None,
        files=own.file_count if own else 0,
        timeline_files=sorted(table.path_of(file) for file in files),
        freed=sorted(join(path, name) if path else name for path, name in freed),
        freed_bytes=sum(freed.values()),
    )
