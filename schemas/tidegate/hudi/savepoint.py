"""Savepoint metadata: the files of each partition that a savepoint keeps."""

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
    """Hudi's HoodieSavepointMetadata: partition to file names; `at_ms` since the epoch."""

    by: str
    at_ms: int
    comment: str
    files: Mapping[str, tuple[str, ...]]

    @property
    def file_count(self) -> int:
        """Number of files that it keeps."""
        return sum(map(len, self.files.values()))

    def encode(self, header: Mapping[str, bytes] | None = None) -> bytes:
        """Write it as the content of a completed savepoint.

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


def read_entries(content: bytes) -> tuple[Mapping[str, bytes], SavepointEntries]:
    """The header and the partitions of a savepoint that `SavepointMetadata.encode` wrote.

    Its partitions are not decoded, but where they are asked for.

    Raises:
        FormatError: somebody else wrote it, Hudi or an earlier version; or it is damaged.
    """
    header, data = containers.data_of(_NAME, content)
    _, position = containers.read_bytes(data, 0)
    _, position = containers.read_long(data, position)
    _, position = containers.read_bytes(data, position)
    entries, position = SavepointEntries.read(data, position)
    if data[position:] != _VERSION:
        raise FormatError("the savepoint does not end as it should")
    return header, entries
