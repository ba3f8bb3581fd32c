"""Whether a pending write moves: a writer that leaves neither heartbeat nor lock file.

Hudi's single writers, with its default settings, are of that kind. What they have begun shows:
files of the timeline come, markers and data files come and grow. No clock is asked: two looks are
compared.

Reason code: writer-alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.hudi import Action, BaseFile, State
from tidegate.hudi_reader import HudiTable, list_partitions
from tidegate.refusals import Refusal
from tidegate.restores.plan import MARKERS
from tidegate.restores.tools import Tools
from tidegate.storage import NotFound, join

_OURS: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""What Tidegate's own processes may be writing at the same time."""


def watch_writers(table: HudiTable, tools: Tools) -> Refusal | None:
    """Look twice at what is pending, and refuse if any of it came or grew in between.

    Where nothing is pending there is nothing to watch, and no time is lost. A writer that pauses
    for longer than the watch is not seen.
    """
    pending = _pending(table)
    if not tools.settings.watch or not pending:
        return None
    before = frozenset(_traces(table, pending, tools))
    seconds = tools.settings.watch.total_seconds()
    tools.wait(seconds)
    moved = frozenset(_traces(table.reloaded(), pending, tools)) - before
    if not moved:
        return None
    path, _ = min(moved)
    return Refusal("writer-alive", f"a write goes on: {path} came or grew within {seconds:g} s")


def _pending(table: HudiTable) -> frozenset[str]:
    return frozenset(
        instant.timestamp
        for instant in table.timeline.instants
        if instant.state is not State.COMPLETED and instant.action not in _OURS
    )


def _traces(table: HudiTable, pending: frozenset[str], tools: Tools) -> Iterator[tuple[str, int]]:
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
    for partition in list_partitions(table.storage, table.location, tools.fan_out):
        for name, size in partition.sizes.items():
            base = BaseFile.parse(name)
            if base is not None and base.instant in pending:
                yield join(table.location, partition.path, name), size
