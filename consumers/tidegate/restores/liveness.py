"""Whether a writer is alive: a restore must be the table's only writer.

Locks are checked; a restore holds one itself only if the settings require it (`holding_lock`).
Hudi expires a lock file only if it is configured to. So the lock of a restorer that died before its
restore was on the timeline blocks all writers until the restore is requested again, or an operator
removes the file. A lock would exclude a writer that begins between the last check of the timeline
and the restore's claim. Such a writer is found at the restore's end (`RestoreRun.check_end`), with
any lock provider.

With default settings, Hudi's single writers have neither heartbeats nor locks. But their progress
shows in new files on the timeline, and in new or growing markers and data files.

The lock that a restore holds is the file of Hudi's FileSystemBasedLockProvider. It is created only
if it does not exist (or has expired), and removed at the end. While it exists, Hudi's writers with
that provider can't begin or complete a write, and fail after their retries. A killed restorer
leaves its file behind. The repeated request, or the table's next request, removes it, with any
outcome. That is safe because Kafka assigns a table's requests to one restorer at a time. On an
object store a restore holds the lock of StorageBasedLockProvider, too (`storage_lock`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi.file_slice import LogFile, parse_data_file
from tidegate.hudi.instant import Action, InstantState, Layout
from tidegate.hudi_reader.partitions import list_partitions
from tidegate.hudi_reader.table import HudiTable, NoSuchTable, load_table
from tidegate.restores.context import RestoreContext
from tidegate.restores.plan import MARKERS
from tidegate.restores.settings import STORAGE_LOCKS, RestoreSettings
from tidegate.restores.storage_lock import AUDIT, OWNER, holding_storage_lock, read_lock
from tidegate.storage import FileInfo, NotFound, Storage, join
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import AnyClaim
from tidegate.tables.warehouse import AlreadyExists

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_HEARTBEAT_EXPIRY: Final = timedelta(minutes=5)
"""A heartbeat file that was not touched for longer belongs to a dead writer. Hudi's writers touch
theirs every minute and stop writing after three minutes without."""
_OURS: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""Actions that Tidegate's own processes may carry out at the same time."""


def check_writers(
    storage: Storage, location: str, now: datetime, settings: RestoreSettings
) -> None:
    """Check that no heartbeat is fresh and no lock is held.

    Ages come from the modification times of files. So this check, unlike any other, compares two
    clocks: this process's and the file system's.

    Raises:
        Refused: a writer is alive.
    """
    for beat in _files(storage, join(location, _HEARTBEATS)):
        if _age(beat, now) < _HEARTBEAT_EXPIRY:
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
        if not lock.name.endswith(".json") or lock.name == AUDIT:
            continue
        found = read_lock(storage, lock.path)
        if found and found.is_held(now) and not found.owner.startswith(OWNER):
            raise Refused(Reason.WRITER_ALIVE, f"the lock {lock.name} is held")


def _files(storage: Storage, folder: str) -> list[FileInfo]:
    try:
        return [e for e in storage.list(folder) if not e.is_dir and not e.name.endswith(".crc")]
    except NotFound:
        return []


def _age(entry: FileInfo, now: datetime) -> timedelta:
    return timedelta(milliseconds=int(now.timestamp() * 1000) - entry.modified_ms)


def _is_held(lock: FileInfo, now: datetime, expiry: int | None) -> bool:
    return expiry is None or _age(lock, now) < timedelta(seconds=expiry)


def watch_writers(table: HudiTable, context: RestoreContext) -> None:
    """List the files of pending writes twice; no clocks are compared. Without them, return at once.

    Does not detect a writer that pauses for longer than the watch.

    Raises:
        Refused: a file of a pending write appeared or grew in between.
    """
    pending = _pending(table)
    seconds = context.settings.watch_seconds
    if not seconds or not pending:
        return
    before = frozenset(_files_of(table, pending, context))
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


def is_ours(storage: Storage, location: str) -> bool:
    """Whether a lock file belongs to a restorer, dead or alive, or is gone."""
    owner = _owner(storage, location)
    return owner is None or owner.startswith(OWNER)


@contextmanager
def removing_left_locks(context: RestoreContext, location: str) -> Generator[None]:
    """Remove at the end the locks of an earlier restorer, even if this one holds no lock.

    A pending restore may still run elsewhere, so its lock stays until the restore is resumed.

    Raises:
        ConfinementError: a lock file is outside the roots, or reached by a link.
    """
    paths = [join(location, name) for name in context.settings.lock_files]
    left = {path: _owner(context.warehouse, path) or "" for path in paths}
    try:
        yield
    finally:
        for path, owner in left.items():
            if owner.startswith(OWNER) and not _may_be_restoring(context, location):
                _remove(context, path, owner)


@contextmanager
def holding_lock(context: RestoreContext, location: str, command_id: str) -> Generator[AnyClaim]:
    """Hold the first lock file of the settings, if `hold_lock` is set, and Hudi's storage lock.

    Yields:
        The claim to check before each step; on an object store its checks include the lock.

    Raises:
        Refused: a writer holds it.
        ConfinementError: the file is outside the roots, or reached by a link.
    """
    claim = context.claim
    if not context.settings.hold_lock:
        yield claim
        return
    path = join(location, context.settings.lock_files[0])
    # not only the command's id: another process may carry out the same command
    owner = f"{OWNER} {command_id} {uuid.uuid4().hex[:8]}"
    warehouse = context.warehouse
    _take(context, path, owner)
    try:
        if warehouse.can(location).conditional_writes:
            with holding_storage_lock(warehouse, location, owner, context.clock, claim) as held:
                yield held
        else:
            yield claim
    finally:
        # a later restorer may have acquired it, if this one seemed dead
        _remove(context, path, owner)


def _may_be_restoring(context: RestoreContext, location: str) -> bool:
    try:
        return bool(load_table(context.warehouse, location).timeline.pending_restores)
    except (FormatError, NotFound, NoSuchTable):
        return True


def _remove(context: RestoreContext, path: str, owner: str) -> None:
    there = context.warehouse.entry(path)
    if there is not None and _owner(context.warehouse, path) == owner:
        context.warehouse.remove_entries([there])


def _take(context: RestoreContext, path: str, owner: str) -> None:
    # the fields of Hudi's own lock file: Hudi logs them if it can't acquire the lock
    created = context.clock().isoformat(timespec="milliseconds")
    content = json.dumps({"lockCreateTime": created, "lockThreadName": owner}).encode()
    warehouse, expiry = context.warehouse, context.settings.lock_expiry
    there = warehouse.entry(path)
    try:
        if there is not None and (_owner(warehouse, path) or "").startswith(OWNER):
            warehouse.replace(path, content, there.version)
            return
        if there is not None and not _is_held(there, context.clock(), expiry):
            warehouse.remove_entries([there])
        warehouse.create(path, content)
    except AlreadyExists as error:
        raise Refused(Reason.WRITER_ALIVE, f"the lock {path} is held") from error


def _owner(storage: Storage, path: str) -> str | None:
    """The owner in a lock file; empty if it names none, None if the file is gone."""
    try:
        read = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        return str(read["lockThreadName"])
    except NotFound:
        return None
    except (FormatError, ValueError, KeyError, TypeError):
        return ""
