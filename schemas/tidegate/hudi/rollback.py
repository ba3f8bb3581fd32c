"""Restore plans and metadata: the instants to roll back, and what each rollback removed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tidegate.errors import FormatError
from tidegate.hudi import containers
from tidegate.hudi.containers import Record
from tidegate.hudi.instant import is_instant
from tidegate.hudi.rollback_block import RollbackBlock


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """Hudi's HoodieInstantInfo: an instant by its time and action."""

    timestamp: str
    action: str

    def record(self) -> Record:
        """The Avro record."""
        return {"commitTime": self.timestamp, "action": self.action}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Make it from an Avro record.

        Raises:
            FormatError: the record's time is not an instant.
        """
        if not is_instant(record["commitTime"]):
            raise FormatError(f"{record['commitTime']!s:.40} is not an instant")
        return cls(record["commitTime"], record["action"])


def rollback_target(requested: bytes) -> InstantInfo:
    """The instant that a requested rollback rolls back, from its HoodieRollbackPlan.

    Raises:
        FormatError: the content is not a rollback plan.
    """
    record = containers.decode(requested)
    with containers.reading("rollback plan"):
        return InstantInfo.of(record["instantToRollback"])


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """Hudi's HoodieRollbackMetadata: the full paths of deleted files, by partition.

    `appended` has (partition, full path) of the log files that contain only a rollback block.
    """

    started: str
    took_ms: int
    target: InstantInfo
    deleted: Mapping[str, tuple[str, ...]]
    appended: tuple[tuple[str, str], ...] = ()

    @property
    def total(self) -> int:
        """The number of files; one that was gone before counts as deleted."""
        return sum(map(len, self.deleted.values()))

    def record(self) -> Record:
        """The Avro record within a restore's metadata."""
        block = len(RollbackBlock(self.target.timestamp, self.started).encode())
        blocks = defaultdict[str, dict[str, int]](dict)
        for partition, path in self.appended:
            blocks[partition][path] = block
        partitions = {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": list(self.deleted.get(partition, ())),
                "failedDeleteFiles": [],
                "rollbackLogFiles": blocks.get(partition, {}),
                "logFilesFromFailedCommit": {},
            }
            for partition in sorted({*self.deleted, *blocks})
        }
        return {
            "startRollbackTime": self.started,
            "timeTakenInMillis": self.took_ms,
            "totalFilesDeleted": self.total,
            "commitsRollback": [self.target.timestamp],
            "partitionMetadata": partitions,
            "version": 1,
            "instantsRollback": [self.target.record()],
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Make it from an Avro record.

        Raises:
            FormatError: the record is not rollback metadata.
        """
        with containers.reading("rollback metadata"):
            partitions = record["partitionMetadata"]
            deleted = {
                partition: tuple(entry["successDeleteFiles"])
                for partition, entry in partitions.items()
                if entry["successDeleteFiles"]
            }
            appended = tuple(
                (partition, path)
                for partition, entry in partitions.items()
                for path in entry.get("rollbackLogFiles") or ()
            )
            target = InstantInfo.of(record["instantsRollback"][0])
            took_ms = max(0, int(record["timeTakenInMillis"]))
            return cls(record["startRollbackTime"], took_ms, target, deleted, appended)


@dataclass(frozen=True, slots=True)
class RestorePlanFile:
    """Hudi's HoodieRestorePlan: the instants to roll back, newest first.

    `savepoint` is None in plans of old Hudi versions. `header` goes into the container's header,
    where Hudi ignores it.
    """

    instants: tuple[InstantInfo, ...]
    savepoint: str | None
    header: Mapping[str, str] = field(default_factory=dict[str, str])

    def encode(self) -> bytes:
        """The content of a requested restore."""
        record = {
            "instantsToRollback": [instant.record() for instant in self.instants],
            "version": 2,
            "savepointToRestoreTimestamp": self.savepoint,
        }
        return containers.encode("HoodieRestorePlan", record, self.header)

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Decode the content of a requested restore.

        Raises:
            FormatError: the content is not a restore plan.
        """
        record, header = containers.decode_with_header(content)
        with containers.reading("restore plan"):
            instants = tuple(map(InstantInfo.of, record["instantsToRollback"]))
            return cls(instants, record.get("savepointToRestoreTimestamp"), header)


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """Hudi's HoodieRestoreMetadata: one rollback per instant, in the order of the plan."""

    started: str
    took_ms: int
    rollbacks: tuple[RollbackMetadata, ...]

    @property
    def total(self) -> int:
        """The number of deleted files of all instants."""
        return sum(rollback.total for rollback in self.rollbacks)

    @property
    def instants(self) -> tuple[InstantInfo, ...]:
        """The rolled-back instants, newest first."""
        return tuple(rollback.target for rollback in self.rollbacks)

    def encode(self) -> bytes:
        """The content of a completed restore."""
        record = {
            "startRestoreTime": self.started,
            "timeTakenInMillis": self.took_ms,
            "instantsToRollback": [r.target.timestamp for r in self.rollbacks],
            "hoodieRestoreMetadata": {r.target.timestamp: [r.record()] for r in self.rollbacks},
            "version": 1,
            "restoreInstantInfo": [r.target.record() for r in self.rollbacks],
        }
        return containers.encode("HoodieRestoreMetadata", record)

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Decode the content of a completed restore.

        Raises:
            FormatError: the content is not restore metadata.
        """
        record = containers.decode(content)
        with containers.reading("restore metadata"):
            by_instant = record["hoodieRestoreMetadata"]
            rollbacks = tuple(
                RollbackMetadata.of(rollback)
                for timestamp in record["instantsToRollback"]
                for rollback in by_instant.get(timestamp, ())
            )
            took_ms = max(0, int(record["timeTakenInMillis"]))
            return cls(record["startRestoreTime"], took_ms, rollbacks)
