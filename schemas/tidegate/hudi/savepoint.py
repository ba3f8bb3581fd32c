"""Savepoint metadata: the files of each partition that a savepoint keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tidegate.hudi import containers


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Hudi's HoodieSavepointMetadata: partition to file names; `at_ms` since the epoch."""

    by: str
    at_ms: int
    comment: str
    files: Mapping[str, tuple[str, ...]]

    @property
    def file_count(self) -> int:
        """Number of files that it keeps."""
        return sum(map(len, self.files.values()))

    def encode(self) -> bytes:
        """Write it as the content of a completed savepoint."""
        partitions = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in self.files.items()
        }
        record = {
            "savepointedBy": self.by,
            "savepointedAt": self.at_ms,
            "comments": self.comment,
            "partitionMetadata": partitions,
            "version": 1,
        }
        return containers.encode("HoodieSavepointMetadata", record)

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read the content of a completed savepoint.

        Raises:
            FormatError: the content is something else.
        """
        record = containers.decode(content)
        with containers.reading("savepoint metadata"):
            files = {
                partition: tuple(entry["savepointDataFile"])
                for partition, entry in record["partitionMetadata"].items()
            }
            return cls(record["savepointedBy"], record["savepointedAt"], record["comments"], files)
