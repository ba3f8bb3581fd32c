"""Facts: what writers and metastores report.

A vacuum is a compaction of a Hive ACID table: it merges deltas and removes nothing. (Delta Lake's
VACUUM deletes files; in Tidegate that is a cleaning.)
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from tidegate.events.base import Fact, Value
from tidegate.events.fields import (
    MAX_DIRECTORIES,
    MAX_LOCKS,
    MAX_METADATA,
    MAX_TRANSACTIONS,
    ContentHash,
    Count,
    DirectoryName,
    HudiInstant,
    Id,
    MetadataKey,
    MetadataValue,
    Snapshot,
    Text,
)

T = TypeVar("T", int, str)


class TableType(StrEnum):
    """Hudi's table types."""

    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"


class VacuumKind(StrEnum):
    """What a compaction wrote: a delta merged from deltas (minor) or a new base (major)."""

    MINOR = "minor"
    MAJOR = "major"


class LockType(StrEnum):
    """Hive's lock types."""

    SHARED_READ = "shared_read"
    SHARED_WRITE = "shared_write"
    EXCLUSIVE = "exclusive"
    EXCL_WRITE = "excl_write"


class ReleaseReason(StrEnum):
    """Why a lock ended."""

    UNLOCKED = "unlocked"
    COMMITTED = "committed"
    ABORTED = "aborted"
    EXPIRED = "expired"


class CommitCompleted(Fact, frozen=True):
    """A writer completed an instant on a Hudi timeline. Identified by table and instant."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant")

    format: Literal["hudi"] = "hudi"
    instant: HudiInstant
    completion_time: HudiInstant | None = None
    action: Text
    operation: Text | None = None
    table_type: TableType = TableType.COPY_ON_WRITE
    files_written: Count | None = None
    records_written: Count | None = None
    bytes_written: Count | None = None
    extra_metadata: dict[MetadataKey, MetadataValue] = Field(
        default_factory=dict, max_length=MAX_METADATA
    )
    reconciled: bool = False


class CommitCondemned(Fact, frozen=True):
    """A writer reports that a commit of its own is bad. Identified by table and instant."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "instant")

    instant: HudiInstant
    reason: Text


def _ordered(values: Collection[T]) -> tuple[T, ...]:
    """The values, sorted and without duplicates."""
    if len(values) <= 1:  # this runs for every vacuum that is read
        return tuple(values)
    return tuple(sorted(set(values)))


class LockHold(Value, frozen=True):
    """A lock that was held on the table when a vacuum became visible."""

    lock_id: Id
    transaction_id: Id | None = None
    partition: Text | None = None
    lock_type: LockType | None = None
    owner: Text | None = None


class VacuumFinished(Fact, frozen=True):
    """A compaction became visible. Its inputs may be removed once every hold has been released.

    `directories` are names relative to the table or, with `partition`, to that partition. `locks`
    always include the compaction's own lock; `open_transactions` are those that were open when it
    became visible, because a reader takes its snapshot before its lock. `metastore` names the
    database, and the state of it, that has given the ids out: one that was restored from a backup
    gives them out again.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "partition",
        "own_lock_id",
        "own_transaction_id",
        "kind",
        "min_write_id",
        "max_write_id",
        "valid_write_ids",
        "metastore",
        "unordered",
    )

    kind: VacuumKind
    partition: Text | None = None
    directories: tuple[DirectoryName, ...] = Field(min_length=1, max_length=MAX_DIRECTORIES)
    min_write_id: Id
    max_write_id: Id
    valid_write_ids: Snapshot
    own_lock_id: Id
    own_transaction_id: Id | None = None
    locks: tuple[LockHold, ...] = Field(min_length=1, max_length=MAX_LOCKS)
    open_transactions: tuple[Id, ...] = Field(default=(), max_length=MAX_TRANSACTIONS)
    metastore: Text | None = None

    @property
    def unordered(self) -> tuple[tuple[str | int, ...], ...]:
        """The directories and the ids of the holds, sorted: their order does not change the id.

        A lock's owner, type and transaction do not change it either.
        """
        locks = [lock.lock_id for lock in self.locks]
        transactions = self.open_transactions and _ordered(self.open_transactions)
        return _ordered(self.directories), _ordered(locks), transactions

    @model_validator(mode="after")
    def _holds_its_own_lock(self) -> Self:
        if self.own_lock_id not in [lock.lock_id for lock in self.locks]:
            raise ValueError("locks must include own_lock_id: a vacuum holds its own lock")
        if self.min_write_id > self.max_write_id:
            raise ValueError("min_write_id is greater than max_write_id")
        return self


class LockReleased(Fact, frozen=True):
    """A lock or transaction ended. Published once per table with a vacuum that waits for it.

    `metastore` is that of the vacuum: it ends no hold of another one, or of another state of it.
    None ends those of all.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "lock_id",
        "transaction_alone",
        "metastore",
    )

    lock_id: Id | None = None
    transaction_id: Id | None = None
    partition: Text | None = None
    lock_type: LockType | None = None
    reason: ReleaseReason = ReleaseReason.UNLOCKED
    reconciled: bool = False
    metastore: Text | None = None

    @property
    def transaction_alone(self) -> int | None:
        """The transaction, if the event names no lock; a lock ends once, with or without one."""
        return self.transaction_id if self.lock_id is None else None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.lock_id is None and self.transaction_id is None:
            raise ValueError("give lock_id, transaction_id or both")
        return self


class WritesAborted(Fact, frozen=True):
    """Directories hold nothing but rows of aborted writes.

    `valid_write_ids` says which ids up to its high-water mark aborted; no id up to it is open, so
    this can't change any more. `content` identifies the directories' content, see
    `tidegate.hive.content_hash`: a table that is dropped and created again under the same name
    begins with the same write ids anew, and there they may have committed.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "partition",
        "location",
        "valid_write_ids",
        "content",
    )

    partition: Text | None = None
    valid_write_ids: Snapshot
    content: ContentHash
