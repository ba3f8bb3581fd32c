"""Facts: what writers and metastores say has happened."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import Field, model_validator

from tidegate.events.base import Count, Fact, Text, Value


class TableFormat(StrEnum):
    """The table format a commit was made in."""

    HUDI = "hudi"


class TableType(StrEnum):
    """Hudi's table types."""

    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"


class VacuumKind(StrEnum):
    """What a compaction made: a delta of deltas (minor) or a new base (major)."""

    MINOR = "minor"
    MAJOR = "major"


class LockType(StrEnum):
    """Hive's lock types."""

    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    EXCLUSIVE = "exclusive"
    EXCL_WRITE = "excl_write"


class ReleaseReason(StrEnum):
    """Why a lock is gone."""

    UNLOCKED = "unlocked"
    COMMITTED = "committed"
    ABORTED = "aborted"
    EXPIRED = "expired"


class CommitCompleted(Fact, frozen=True):
    """A writer completed an instant. Idempotent by table and instant."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant")

    format: TableFormat = TableFormat.HUDI
    instant: Text
    completion_time: Text | None = None
    action: Text
    operation: Text | None = None
    table_type: TableType = TableType.COPY_ON_WRITE
    files_written: Count | None = None
    records_written: Count | None = None
    bytes_written: Count | None = None
    extra_metadata: dict[str, str] = Field(default_factory=dict)


class LockHold(Value, frozen=True):
    """A lock that was held on the table when a vacuum became visible."""

    lock_id: int
    transaction_id: int | None = None
    partition: Text | None = None
    lock_type: LockType | None = None
    owner: Text | None = None


class VacuumFinished(Fact, frozen=True):
    """A compaction became visible; what it replaced may go once every hold is released.

    `directories` are names below the table or, with `partition`, below that partition.
    `locks` always holds the vacuum's own lock; `open_transactions` are the transactions that were
    open when the vacuum became visible, because a reader takes its snapshot before its lock.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "partition", "directories", "own_lock_id")

    kind: VacuumKind
    partition: Text | None = None
    directories: tuple[Text, ...] = Field(min_length=1)
    min_write_id: Count
    max_write_id: Count
    valid_write_ids: Text
    own_lock_id: int
    own_transaction_id: int | None = None
    locks: tuple[LockHold, ...] = Field(min_length=1)
    open_transactions: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _holds_its_own_lock(self) -> Self:
        if self.own_lock_id not in {lock.lock_id for lock in self.locks}:
            raise ValueError("a vacuum holds its own lock: locks must list own_lock_id")
        if self.min_write_id > self.max_write_id:
            raise ValueError("min_write_id lies above max_write_id")
        return self


class LockReleased(Fact, frozen=True):
    """A lock or a transaction ended. Published once for each table that a vacuum holds it on."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "lock_id", "transaction_id")

    lock_id: int | None = None
    transaction_id: int | None = None
    partition: Text | None = None
    lock_type: LockType | None = None
    reason: ReleaseReason = ReleaseReason.UNLOCKED
    reconciled: bool = False

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.lock_id is None and self.transaction_id is None:
            raise ValueError("a release names a lock_id, a transaction_id or both")
        return self
