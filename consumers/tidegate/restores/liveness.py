"""Whether a writer is alive: a restore must be the table's only writer.

Locks are checked; a restore holds one itself only if the settings require it (`table_lock.py`).
Hudi expires a lock file only if it is configured to. So the lock of a restorer that died before its
restore was on the timeline blocks all writers until the restore is requested again, or an operator
removes the file. A lock would exclude a writer that begins between the last check of the timeline
and the restore's claim. Such a writer is found at the restore's end (`RestoreRun.check_end`), with
any lock provider.

With default settings, Hudi's single writers have neither heartbeats nor locks. But their progress
shows in new files on the timeline, and in new or growing markers and data files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, InstantState, Layout, LogFile, parse_data_file
from tidegate.hudi_reader import HudiTable, list_partitions
from tidegate.restores.context import STORAGE_LOCKS, LivenessSettings, RestoreContext
from tidegate.restores.plan import MARKERS
from tidegate.restores.table_lock import is_ours
from tidegate.storage import FileInfo, NotFound, Storage, join
from tidegate.tables.refusal import Refused

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_OURS: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""Actions that Tidegate's own processes may carry out at the same time."""


def check_writers(
    storage: Storage, location: str, now: datetime, settings: LivenessSettings
) -> None:
    """Check that no heartbeat is fresh and no lock is held.

    Ages come from the modification times of files. So this check, unlike any other, compares two
    clocks: this process's and the file system's.

    Raises:
        Refused: a writer is alive.
    """
    for beat in _files(storage, join(location, _HEARTBEATS)):
        if _age(beat, now) < settings.heartbeat_expiry:
            raise Refused(
                Reason.WRITER_ALIVE, f"the heartbeat of write {beat.name} is fresh: stop its writer"
            )
    for name in settings.lock_files:
        folder, _, file = join(location, name).rpartition("/")
        for lock in _files(storage, folder):
            if lock.name != file or is_ours(storage, lock.path):
                continue
            if _is_held(lock, now, settings.lock_expiry):
                raise Refused(Reason.WRITER_ALIVE, f"the lock {name} is held")
    for lock in _files(storage, join(location, STORAGE_LOCKS)):
        if lock.name.endswith(".json") and not _is_released(storage, lock, now):
            raise Refused(Reason.WRITER_ALIVE, f"the lock {lock.name} is held")


def _files(storage: Storage, folder: str) -> list[FileInfo]:
    try:
        return [e for e in storage.list(folder) if not e.is_dir and not e.name.endswith(".crc")]
    except NotFound:
        return []


def _age(entry: FileInfo, now: datetime) -> timedelta:
    return timedelta(milliseconds=int(now.timestamp() * 1000) - entry.modified_ms)


def _is_held(lock: FileInfo, now: datetime, expiry: timedelta | None) -> bool:
    return expiry is None or _age(lock, now) < expiry


def _is_released(storage: Storage, lock: FileInfo, now: datetime) -> bool:
    # a StorageBasedLockProvider marks its file as expired; an unreadable file counts as held
    try:
        content = parse_json(storage.read(lock.path, MAX_SMALL), lock.path, MAX_SMALL)
        return bool(content["expired"]) or int(content["validUntil"]) < now.timestamp() * 1000
    except (NotFound, ValueError, KeyError, TypeError, OverflowError):
        return False


def watch_writers(table: HudiTable, context: RestoreContext) -> None:
    """List the files of pending writes twice; no clocks are compared. Without them, return at once.

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
