"""Whether a pending write makes progress: for writers with neither heartbeat nor lock file.

With default settings, Hudi's single writers have neither. But their progress shows in new files on
the timeline, and in new or growing markers and data files. Two listings are compared, no clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.events.reasons import Reason
from tidegate.hudi import Action, InstantState, Layout, LogFile, parse_data_file
from tidegate.hudi_reader import HudiTable, list_partitions
from tidegate.restores.context import RestoreContext
from tidegate.restores.plan import MARKERS
from tidegate.storage import NotFound, join
from tidegate.tables.refusal import Refused

_OURS: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""Actions that Tidegate's own processes may carry out at the same time."""


def watch_writers(table: HudiTable, context: RestoreContext) -> None:
    """List the files of pending writes twice. Without pending writes, returns at once.

    Does not detect a writer that pauses for longer than the watch.

    Raises:
        Refused: a file of a pending write appeared or grew in between.
    """
    pending = _pending(table)
    if not context.settings.watch or not pending:
        return
    before = frozenset(_files_of(table, pending, context))
    seconds = context.settings.watch.total_seconds()
    context.wait(seconds)
    moved = frozenset(_files_of(table.reloaded(), pending, context)) - before
    if not moved:
        return
    path, _ = min(moved)
    raise Refused(
        Reason.WRITER_ALIVE, f"a write is in progress: {path} appeared or grew within {seconds:g} s"
    )


def _pending(table: HudiTable) -> frozenset[str]:
    return frozenset(
        instant.timestamp
        for instant in table.timeline.instants
        if instant.state is not InstantState.COMPLETED and instant.action not in _OURS
    )


def _files_of(
    table: HudiTable, pending: frozenset[str], context: RestoreContext
) -> Iterator[tuple[str, int]]:
    """The files of the timeline, and the markers and data files of pending writes, with sizes."""
    for instant in table.files:
        if instant.action not in _OURS:
            yield table.path_of(instant), 0
    for timestamp in pending:
        try:
            for entry in table.storage.walk(join(table.location, MARKERS, timestamp)):
                yield entry.path, entry.size
        except NotFound:
            continue
    for partition in list_partitions(table.storage, table.location, context.parallel_map):
        for name, size in partition.sizes.items():
            file = parse_data_file(name)
            # in layout 1 a log file does not name the write that appended to its slice
            is_any_s = isinstance(file, LogFile) and table.properties.layout is Layout.ONE
            if file is not None and (file.instant in pending or is_any_s):
                yield join(table.location, partition.path, name), size
