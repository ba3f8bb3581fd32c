"""The lock of Hudi's StorageBasedLockProvider, held while a restore runs.

    .hoodie/.locks/table_lock.json   {"expired": false, "validUntil": 1795795200000, "owner": "..."}

A lock is held until its owner sets `expired`, or `validUntil` (in ms since 1970) is past. The file
is only created if it does not exist, and only replaced in the version that was read: of two
processes that want the lock, one gets it. The file is never removed.

So the lock of a killed restorer ends by itself. The next restorer need not wait for that: a restore
checks before each step that the lock is still its own, and ends where another process took it. A
restorer that was stalled until its lock had expired goes on only if it was not taken since.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError, TidegateError, TransientError
from tidegate.events.reasons import Reason
from tidegate.restores.settings import STORAGE_LOCKS
from tidegate.storage import NotFound, Storage, join
from tidegate.storage.file_info import Version
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import FRESH_SECONDS, AnyClaim
from tidegate.tables.warehouse import AlreadyExists, Warehouse

AUDIT: Final = "audit_enabled.json"
"""A file beside the locks: whether Hudi records who took it."""
OWNER: Final = "tidegate restore"
"""What the owner of every restorer's lock starts with."""
# Hudi's own defaults
_VALID: Final = timedelta(minutes=5)
_RENEWAL: Final = timedelta(seconds=30)
_DRIFT: Final = timedelta(milliseconds=500)
"""By which the clocks of two machines may differ."""
_MS: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_NEVER: Final = 2**63


class _LockFile(NamedTuple):
    """The content of the file; one that can't be read is held without end."""

    owner: str = ""
    valid_until: int = _NEVER
    is_released: bool = False

    def is_held(self, now: datetime) -> bool:
        """Whether its owner may still rely on it."""
        return not self.is_released and (now - _EPOCH - _DRIFT) // _MS <= self.valid_until

    def encode(self) -> bytes:
        """The file's bytes."""
        fields = {"expired": self.is_released, "validUntil": self.valid_until, "owner": self.owner}
        return json.dumps(fields).encode()


def read_lock(storage: Storage, path: str) -> _LockFile | None:
    """Read the file; None if there is none."""
    try:
        read = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        return _LockFile(str(read.get("owner")), int(read["validUntil"]), bool(read["expired"]))
    except NotFound:
        return None
    except (FormatError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return _LockFile()


@contextmanager
def holding_storage_lock(
    warehouse: Warehouse, location: str, owner: str, clock: Callable[[], datetime], claim: AnyClaim
) -> Generator[AnyClaim]:
    """Hold the lock of a table; yield a claim whose checks include it.

    Raises:
        Refused: a writer holds it.
    """
    path = join(location, STORAGE_LOCKS, "table_lock.json")
    lock, ended = _StorageLock(warehouse, path, owner, clock, claim), threading.Event()
    lock.take()
    threading.Thread(target=lock.renew, args=(ended,), name="storage lock", daemon=True).start()
    try:
        yield lock
    finally:
        ended.set()
        lock.release()


@dataclass(slots=True)
class _StorageLock(AnyClaim):
    """Order of calls: `take`; `check` and `renew`, from any thread; `release`."""

    warehouse: Warehouse
    path: str
    owner: str
    clock: Callable[[], datetime]
    claim: AnyClaim
    checked_at: datetime = field(default=_EPOCH, init=False)
    one_by_one: threading.Lock = field(default_factory=threading.Lock, init=False)

    def take(self) -> None:
        version, there = self._read()
        if there and there.is_held(self.clock()) and not there.owner.startswith(OWNER):
            raise self._refused
        try:
            if there:
                self._replace(version)
            else:
                self.warehouse.create(self.path, self._content().encode())
        except AlreadyExists as error:
            raise self._refused from error

    def check(self) -> None:
        """Check the task's claim, and that the lock is still this restorer's.

        Raises:
            TransientError: another process took it; another attempt may take it again.
        """
        self.claim.check()
        self._check(_VALID / 2)

    def check_if_old(self) -> None:
        self.claim.check_if_old()
        if self.clock() - self.checked_at > timedelta(seconds=FRESH_SECONDS):
            self._check(_VALID / 2)

    def renew(self, ended: threading.Event) -> None:
        while not ended.wait(_RENEWAL.total_seconds()):
            with suppress(TidegateError, OSError):  # the restore's next check meets it, too
                self._check(_VALID)

    def release(self) -> None:
        """Let writers have it. Where that fails, it ends by itself."""
        with self.one_by_one, suppress(TidegateError, OSError):
            version, there = self._ours()
            released = there._replace(is_released=True)
            self.warehouse.replace(self.path, released.encode(), version)

    def _check(self, least: timedelta) -> None:
        """Check whether it is ours, and renew it if it is valid for less than `least`.

        To replace what was read proves that no process took it since, even if it had expired. An
        answer to a replacement may be lost: then the file's version is new, and its owner is ours.
        """
        with self.one_by_one:
            now = self.clock()
            version, there = self._ours()
            try:
                if not there.is_held(now + least):
                    self._replace(version)
            except AlreadyExists as error:
                raise self._lost from error
            self.checked_at = now

    def _ours(self) -> tuple[Version, _LockFile]:
        version, there = self._read()
        if there is None or there.owner != self.owner or there.is_released:
            raise self._lost
        return version, there

    def _read(self) -> tuple[Version, _LockFile | None]:
        # in this order: the content of a newer version than this one fails to be replaced
        entry = self.warehouse.entry(self.path)
        return entry and entry.version, entry and read_lock(self.warehouse, self.path)

    def _replace(self, version: Version) -> None:
        self.warehouse.replace(self.path, self._content().encode(), version)

    def _content(self) -> _LockFile:
        return _LockFile(self.owner, (self.clock() + _VALID - _EPOCH) // _MS)

    @property
    def _refused(self) -> Refused:
        return Refused(Reason.WRITER_ALIVE, f"the lock {self.path} is held")

    @property
    def _lost(self) -> TransientError:
        return TransientError(f"the lock {self.path} was taken by another process")
