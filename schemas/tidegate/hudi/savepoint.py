"""Savepoint metadata: the files that a savepoint keeps, by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hudi import containers

_NAME: Final = "HoodieSavepointMetadata"


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Hudi's HoodieSavepointMetadata.

    `files` has the file names by partition; `at_ms` is in milliseconds since the epoch.
    """

    by: str
    at_ms: int
    comment: str
    files: Mapping[str, tuple[str, ...]]

    @property
    def file_count(self) -> int:
        """The number of files that it keeps."""
        return sum(map(len, self.files.values()))

    def encode(self, header: Mapping[str, str] | None = None) -> bytes:
        """The content of a completed savepoint.

        Args:
            header: Further entries for the header; Hudi ignores keys that it does not know.
        """
        record = {
            "savepointedBy": self.by,
            "savepointedAt": self.at_ms,
            "comments": self.comment,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": list(names)}
                for partition, names in sorted(self.files.items())
            },
            "version": 1,
        }
        return containers.encode(_NAME, record, header)

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Decode the content of a completed savepoint.

        Raises:
            FormatError: the content is not savepoint metadata.
        """
        return cls._of(containers.decode(content))

    @classmethod
    def decode_own(cls, content: bytes) -> tuple[Self, Mapping[str, str]]:
        """Decode what `encode` made; return the header's entries, too.

        Raises:
            FormatError: Hudi or another version wrote the content, or it is damaged.
        """
        record, header = containers.decode_with_header(content)
        metadata = cls._of(record)
        if metadata.encode(header) != content:
            raise FormatError("the savepoint was written by another program, or is damaged")
        return metadata, header

    @classmethod
    def _of(cls, record: containers.Record) -> Self:
        with containers.reading("savepoint metadata"):
            files = {
                partition: tuple(entry["savepointDataFile"])
                for partition, entry in record["partitionMetadata"].items()
            }
            return cls(record["savepointedBy"], record["savepointedAt"], record["comments"], files)
