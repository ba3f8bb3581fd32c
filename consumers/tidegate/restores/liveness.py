"""Whether a writer is alive: a restore needs the table to itself.

Reason code: writer-alive.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tidegate.refusals import Refusal
from tidegate.storage import Entry, NotFound, Storage, join

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_STORAGE_LOCKS: Final = ".hoodie/.locks"


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """How to tell a living writer from what a dead one left.

    Attributes:
        heartbeat_expiry: A heartbeat file untouched for longer is a dead writer's. Hudi's writers
            touch theirs every minute and give themselves up after three.
        lock_files: Lock files of Hudi's FileSystemBasedLockProvider, below the table.
        lock_expiry: A lock file older than this is a dead writer's; None, as in Hudi: never.
        watch: How long a pending write is watched for a sign of life; zero: not at all.
    """

    heartbeat_expiry: timedelta = timedelta(minutes=5)
    lock_files: tuple[str, ...] = (".hoodie/lock",)
    lock_expiry: timedelta | None = None
    watch: timedelta = timedelta(seconds=5)


def check_writers(
    storage: Storage, location: str, now: datetime, settings: RestoreSettings
) -> Refusal | None:
    """Refuse while a heartbeat beats or a lock is held.

    Ages are taken by the modification times of files, so this is the one place where two clocks
    meet: this process's and the file system's.
    """
    for beat in _files(storage, join(location, _HEARTBEATS)):
        if _age(beat, now) < settings.heartbeat_expiry:
            return Refusal("writer-alive", f"a writer's heartbeat for {beat.name} is still beating")
    for name in settings.lock_files:
        folder, _, file = join(location, name).rpartition("/")
        for lock in _files(storage, folder):
            if lock.name == file and _is_held(lock, now, settings.lock_expiry):
                return Refusal("writer-alive", f"the lock {name} is held")
    for lock in _files(storage, join(location, _STORAGE_LOCKS)):
        if lock.name.endswith(".json") and not _is_released(storage, lock, now):
            return Refusal("writer-alive", f"the lock {lock.name} is held")
    return None


def _files(storage: Storage, folder: str) -> list[Entry]:
    try:
        return [e for e in storage.list(folder) if not e.is_dir and not e.name.endswith(".crc")]
    except NotFound:
        return []


def _age(entry: Entry, now: datetime) -> timedelta:
    return timedelta(milliseconds=int(now.timestamp() * 1000) - entry.modified_ms)


def _is_held(lock: Entry, now: datetime, expiry: timedelta | None) -> bool:
    return expiry is None or _age(lock, now) < expiry


def _is_released(storage: Storage, lock: Entry, now: datetime) -> bool:
    # a StorageBasedLockProvider leaves its file behind, marked; what can't be read counts as held
    try:
        said = json.loads(storage.read(lock.path))
        return bool(said["expired"]) or int(said["validUntil"]) < now.timestamp() * 1000
    except (NotFound, ValueError, KeyError, TypeError):
        return False
