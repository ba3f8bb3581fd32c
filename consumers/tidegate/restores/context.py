"""The environment of a restore: warehouse, clock and settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tidegate.restores.hudi_engine import HudiEngine
from tidegate.storage import ParallelMap
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed
from tidegate.tables.warehouse import Warehouse

STORAGE_LOCKS: Final = ".hoodie/.locks"


@dataclass(frozen=True, slots=True)
class LivenessSettings:
    """How to distinguish a live writer from the files of a dead one.

    Attributes:
        heartbeat_expiry: A heartbeat file that was not touched for longer belongs to a dead writer.
            Hudi's writers touch theirs every minute and stop writing after three minutes without.
        lock_files: Lock files of Hudi's FileSystemBasedLockProvider, relative to the table.
        lock_expiry: A lock file older than this belongs to a dead writer; None (as in Hudi): locks
            never expire.
        hold_lock: Whether to hold the first of `lock_files` while a restore runs.
        watch: How long pending writes are watched for changes; zero: not at all.
    """

    heartbeat_expiry: timedelta = timedelta(minutes=5)
    lock_files: tuple[str, ...] = (".hoodie/lock",)
    lock_expiry: timedelta | None = None
    hold_lock: bool = False
    watch: timedelta = timedelta(seconds=5)

    @property
    def checked_locks(self) -> list[str]:
        """The locks that are checked, relative to the table; other locks go unnoticed."""
        return [*self.lock_files, f"{STORAGE_LOCKS}/*.json"]


@dataclass(frozen=True, slots=True)
class RestoreContext:
    """The warehouse, the parallel map, the clock (aware times) and the settings of a restorer.

    `wait` blocks for the given number of seconds. `hudi` restores the tables that its rules cover.
    `claim` is the task's claim of the table.
    """

    warehouse: Warehouse
    parallel_map: ParallelMap
    clock: Callable[[], datetime]
    settings: LivenessSettings
    wait: Callable[[float], None] = time.sleep
    hudi: HudiEngine | None = None
    claim: Unclaimed = NO_CLAIM
