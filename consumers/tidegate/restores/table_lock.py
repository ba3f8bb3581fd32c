"""The writers' lock of a table, held while a restore runs, if the settings say so.

It is the file of Hudi's FileSystemBasedLockProvider: created only where it is not there, removed at
the end, and older than its expiry left behind. While it is there Hudi's writers with that provider
begin nothing and complete nothing; after their attempts they fail.

A restorer that is killed leaves its file. The next restore of the table takes it over, whatever
request it is for: Kafka gives a table's requests to one restorer after the other.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tidegate.events.reasons import Reason
from tidegate.storage import FileInfo, NotFound, Storage, join
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import AlreadyExists

if TYPE_CHECKING:
    from tidegate.restores.context import RestoreContext

_OWNER: Final = "tidegate restore"
_LARGEST: Final = 65_536
"""Bytes of a lock file; Hudi's has the stack of the thread that took it."""


def is_ours(storage: Storage, location: str) -> bool:
    """Whether a lock file is that of a restorer, dead or alive, or gone by now."""
    return _owner(storage, location).startswith(_OWNER)


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
    path, owner = join(location, context.settings.lock_files[0]), f"{_OWNER} {command_id}"
    _take(context, path, owner)
    try:
        yield
    finally:
        # the next restore may have taken it over from one that was thought dead
        if _owner(context.warehouse, path) == owner:
            context.warehouse.remove_files([path])


def _take(context: RestoreContext, path: str, owner: str) -> None:
    # the names that Hudi's own lock file has: it logs them where it can't have the lock
    created = context.clock().isoformat(timespec="milliseconds")
    content = json.dumps({"lockCreateTime": created, "lockThreadName": owner}).encode()
    warehouse, expiry = context.warehouse, context.settings.lock_expiry
    there = _info(warehouse, path)
    if there is not None and is_ours(warehouse, path):
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


def _owner(storage: Storage, path: str) -> str:
    """Who made a lock file, as it says; empty if it does not, or is gone."""
    try:
        read = json.loads(storage.read(path, _LARGEST))
        return str(read["lockThreadName"])
    except (NotFound, ValueError, KeyError, TypeError):
        return ""
