"""Restore plan and metadata: the instants to roll back, and the completed rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from tidegate.hudi import containers
from tidegate.hudi.rollback import InstantInfo, RollbackMetadata


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
