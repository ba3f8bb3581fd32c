"""The writers' lock of a table, held while a restore runs, if the settings require it.

It is the lock file of Hudi's FileSystemBasedLockProvider. It is created only if it does not exist
(or has expired), and removed at the end. While it exists, Hudi's writers with that provider can't
begin or complete a write, and fail after their retries.

A killed restorer leaves its file behind. The repeated request, or the table's next request, removes
it, with any outcome. That is safe because Kafka assigns a table's requests to one restorer at a
time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi_reader import NoSuchTable, load_table
from tidegate.restores.context import RestoreContext
from tidegate.storage import FileInfo, NotFound, Storage, join
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import AlreadyExists

_OWNER: Final = "tidegate restore"


def is_ours(storage: Storage, location: str) -> bool:
    """Whether a lock file belongs to a restorer, dead or alive, or is gone."""
    owner = _owner(storage, location)
    return owner is None or owner.startswith(_OWNER)


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
            if owner.startswith(_OWNER) and not _may_be_restoring(context, location):
                _remove(context, path, owner)


@contextmanager
def holding_lock(context: RestoreContext, location: str, command_id: str) -> Generator[None]:
    """Hold the first lock file of the settings, if `hold_lock` is set.

    Raises:
        Refused: a writer holds it.
        ConfinementError: the file is outside the roots, or reached by a link.
    """
    if not context.settings.hold_lock:
        yield
        return
    path = join(location, context.settings.lock_files[0])
    # not only the command's id: another process may carry out the same command
    owner = f"{_OWNER} {command_id} {uuid.uuid4().hex[:8]}"
    _take(context, path, owner)
    try:
        yield
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
        if there is not None and (_owner(warehouse, path) or "").startswith(_OWNER):
            warehouse.replace(path, content, there.version)
            return
        if there is not None and expiry is not None and _age(context, there) >= expiry:
            warehouse.remove_entries([there])
        warehouse.create(path, content)
    except AlreadyExists as error:
        raise Refused(Reason.WRITER_ALIVE, f"the lock {path} is held") from error


def _age(context: RestoreContext, file: FileInfo) -> timedelta:
    return timedelta(milliseconds=int(context.clock().timestamp() * 1000) - file.modified_ms)


def _owner(storage: Storage, path: str) -> str | None:
    """The owner in a lock file; empty if it names none, None if the file is gone."""
    try:
        read = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        return str(read["lockThreadName"])
    except NotFound:
        return None
    except (FormatError, ValueError, KeyError, TypeError):
        return ""
