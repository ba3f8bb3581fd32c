"""Savepoint metadata: the files that a savepoint keeps, by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from tidegate.errors import FormatError
from tidegate.hudi import containers
from tidegate.hudi.savepoint_entries import SavepointEntries

_NAME: Final = "HoodieSavepointMetadata"
_VERSION: Final = containers.long(0) + containers.long(1)
"""The first branch of the union (an int), and version 1."""


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

    def encode(self, header: Mapping[str, bytes] | None = None) -> bytes:
        """The content of a completed savepoint.

        Args:
            header: Further entries for the header; Hudi ignores keys that it does not know.
        """
        files = self.files
        entries = files if isinstance(files, SavepointEntries) else SavepointEntries.of(files)
        data = (
            containers.text(self.by),
            containers.long(self.at_ms),
            containers.text(self.comment),
            entries.encode(),
            _VERSION,
        )
        return containers.encode_data(_NAME, b"".join(data), header or {})

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Decode the content of a completed savepoint.

        Raises:
            FormatError: the content is not savepoint metadata.
        """
        record = containers.decode(content)
        with containers.reading("savepoint metadata"):
            files = {
                partition: tuple(entry["savepointDataFile"])
                for partition, entry in record["partitionMetadata"].items()
            }
            return cls(record["savepointedBy"], record["savepointedAt"], record["comments"], files)


def read_entries(content: bytes) -> tuple[Mapping[str, bytes], SavepointEntries]:
    """The header and the partitions of a savepoint by `SavepointMetadata.encode`.

    Partitions are decoded only on access.

    Raises:
        FormatError: Hudi or another version wrote the content, or it is damaged.
    """
    header, data = containers.data_of(_NAME, content)
    _, position = containers.read_bytes(data, 0)
    _, position = containers.read_long(data, position)
    _, position = containers.read_bytes(data, position)
    entries, position = SavepointEntries.read(data, position)
    if data[position:] != _VERSION:
        raise FormatError("the savepoint does not end as it should")
    return header, entries
