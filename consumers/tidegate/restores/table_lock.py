"""The writers' lock of a table, held while a restore runs, if the settings say so.

It is the file of Hudi's FileSystemBasedLockProvider: created only where it is not there, removed at
the end, and older than its expiry left behind. While it is there Hudi's writers with that provider
begin nothing and complete nothing; after their attempts they fail.

A restorer that is killed leaves its file. Its request comes again, or the next one of the table
does, and removes it, whatever becomes of that request: Kafka gives a table's requests to one
restorer after the other.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi_reader import NoSuchTable, load_table
from tidegate.storage import FileInfo, NotFound, Storage, join
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import AlreadyExists

if TYPE_CHECKING:
    from tidegate.restores.context import RestoreContext

_OWNER: Final = "tidegate restore"


def is_ours(storage: Storage, location: str) -> bool:
    """Whether a lock file is that of a restorer, dead or alive, or gone by now."""
    owner = _owner(storage, location)
    return owner is None or owner.startswith(_OWNER)


@contextmanager
def leaving_none_behind(context: RestoreContext, location: str) -> Generator[None]:
    """Remove at the end what an earlier restorer left, whether or not a lock is to be held now.

    While a restore is pending it may still run elsewhere: who resumes it removes the lock.

    Raises:
        ConfinementError: it is outside the roots, or reached by a link.
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
    """Hold the first of the lock files that the settings name, if they say that it is to be held.

    Raises:
        Refused: a writer has it.
        ConfinementError: it is outside the roots, or reached by a link.
    """
    if not context.settings.hold_lock:
        yield
        return
    path = join(location, context.settings.lock_files[0])
    # not only the command's id: another process may have the same command again
    owner = f"{_OWNER} {command_id} {uuid.uuid4().hex[:8]}"
    _take(context, path, owner)
    try:
        yield
    finally:
        # the next restore may have taken it over from one that was thought dead
        _remove(context, path, owner)


def _may_be_restoring(context: RestoreContext, location: str) -> bool:
    try:
        return bool(load_table(context.warehouse, location).timeline.pending_restores)
    except (FormatError, NotFound, NoSuchTable):
        return True


def _remove(context: RestoreContext, path: str, owner: str) -> None:
    if _owner(context.warehouse, path) == owner:
        context.warehouse.remove_files([path])


def _take(context: RestoreContext, path: str, owner: str) -> None:
    # the names that Hudi's own lock file has: it logs them where it can't have the lock
    created = context.clock().isoformat(timespec="milliseconds")
    content = json.dumps({"lockCreateTime": created, "lockThreadName": owner}).encode()
    warehouse, expiry = context.warehouse, context.settings.lock_expiry
    there = _info(warehouse, path)
    if (_owner(warehouse, path) or "").startswith(_OWNER):
        warehouse.replace(path, content)
        return
    if there is not None and expiry is not None and _age(context, there) >= expiry:
        warehouse.remove_files([path])
    try:
        warehouse.create(path, content)
    except AlreadyExists as error:
        raise Refused(Reason.WRITER_ALIVE, f"the lock {path} is held") from error


def _age(context: RestoreContext, file: FileInfo) -> timedelta:
    return timedelta(milliseconds=int(context.clock().timestamp() * 1000) - file.modified_ms)


def _info(storage: Storage, path: str) -> FileInfo | None:
    folder, _, name = path.rpartition("/")
    try:
        return next((each for each in storage.list(folder) if each.name == name), None)
    except NotFound:
        return None


def _owner(storage: Storage, path: str) -> str | None:
    """Who made a lock file, as it says; empty if it does not, None if it is gone."""
    try:
        read = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        return str(read["lockThreadName"])
    except NotFound:
        return None
    except (FormatError, ValueError, KeyError, TypeError):
        return ""
