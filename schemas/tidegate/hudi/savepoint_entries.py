"""The partitions of a savepoint as encoded blocks: a change rewrites only the blocks it touches.

Avro allows a map to be written in blocks, each with its size. A savepoint's blocks are sorted by
partition. So a partition's block is found by search, and all others are copied without decoding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import fastavro

from tidegate.errors import FormatError
from tidegate.hudi import containers

_ENTRIES: Final = 16
"""Partitions per block: fewer than 64, so that their number takes one byte.

Larger blocks cost more decoding per change; smaller ones cost more steps in every loop."""

Files = tuple[str, ...]


class _Block(NamedTuple):
    # a tuple for speed: a savepoint of 20,000 partitions creates more than a thousand blocks
    first: str
    number: int
    encoded: bytes
    """The block's number of partitions, its size, and its content."""

    @classmethod
    def of(cls, entries: Sequence[tuple[str, Files]]) -> Self:
        record = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in entries
        }
        content = containers.encode_value(_map_schema(), record)
        # without the first byte (their number) and the last (no more blocks)
        payload = content[1:-1]
        size = containers.long(-len(entries)) + containers.long(len(payload))
        return cls(entries[0][0], len(entries), size + payload)

    def decode(self) -> dict[str, Files]:
        _, position = containers.read_long(self.encoded, 0)
        _, position = containers.read_long(self.encoded, position)
        content = containers.long(self.number) + self.encoded[position:] + b"\0"
        record: dict[str, Any] = containers.decode_value(_map_schema(), content)
        if len(record) != self.number:
            raise FormatError(
                "a block of the savepoint has another number of partitions than stated"
            )
        return {p: tuple(entry["savepointDataFile"]) for p, entry in record.items()}


@dataclass(frozen=True)
class SavepointEntries(Mapping[str, Files]):
    """File names by partition; a block is decoded on access to one of its partitions."""

    blocks: tuple[_Block, ...]
    _decoded: dict[int, dict[str, Files]] = field(
        default_factory=dict[int, dict[str, Files]], repr=False, compare=False
    )

    @classmethod
    def of(cls, files: Mapping[str, Files]) -> Self:
        """Encode file names by partition."""
        return cls(tuple(_blocks(files)))

    @classmethod
    def read(cls, data: bytes, position: int) -> tuple[Self, int]:
        """Read the bytes of `encode`; return the entries and the index after them.

        Raises:
            FormatError: the partitions are not in sorted blocks with sizes; Hudi's own never are.
        """
        blocks = list[_Block]()
        while True:
            start = position
            count, position = containers.read_long(data, position)
            if count == 0:
                break
            if count > 0:
                raise FormatError("the savepoint's partitions are not in blocks with sizes")
            size, position = containers.read_long(data, position)
            end = position + size
            if not 0 < size <= len(data) - position:
                raise FormatError("the savepoint ends within a block")
            length, position = containers.read_long(data, position)
            if not 0 <= length <= end - position:
                raise FormatError("the savepoint ends within the name of a partition")
            first = data[position : position + length].decode("utf-8", "replace")
            blocks.append(_Block(first, -count, data[start:end]))
            position = end
        if any(block.first >= after.first for block, after in pairwise(blocks)):
            raise FormatError("the savepoint's partitions are not sorted")
        return cls(tuple(blocks)), position

    def encode(self) -> bytes:
        """The encoded map."""
        return b"".join([block.encoded for block in self.blocks]) + containers.long(0)

    def changed(self, changes: Mapping[str, Files | None]) -> SavepointEntries:
        """A copy with other files for these partitions; None removes a partition.

        Raises:
            FormatError: a block of these partitions can't be decoded.
        """
        by_block = defaultdict[int, dict[str, Files | None]](dict)
        for partition, names in changes.items():
            by_block[self._block_of(partition)][partition] = names
        found = list[_Block]()
        for number, block in enumerate(self.blocks or (None,)):
            if number not in by_block:
                found += [block] if block else []
                continue
            entries = (self._entries(number) if block else {}) | by_block[number]
            found += _blocks({p: names for p, names in entries.items() if names is not None})
        return SavepointEntries(tuple(found))

    def __getitem__(self, partition: str) -> Files:
        """The files of a partition."""
        if not self.blocks:
            raise KeyError(partition)
        return self._entries(self._block_of(partition))[partition]

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(block.number for block in self.blocks)

    def __iter__(self) -> Iterator[str]:
        """The partitions, sorted."""
        for number in range(len(self.blocks)):
            yield from self._entries(number)

    def _block_of(self, partition: str) -> int:
        return max(0, bisect_right(self._firsts, partition) - 1)

    @cached_property
    def _firsts(self) -> list[str]:
        return [block.first for block in self.blocks]

    def _entries(self, number: int) -> dict[str, Files]:
        if number not in self._decoded:
            self._decoded[number] = self.blocks[number].decode()
        return self._decoded[number]


def _blocks(files: Mapping[str, Files]) -> Iterator[_Block]:
    entries = sorted(files.items())
    for start in range(0, len(entries), _ENTRIES):
        yield _Block.of(entries[start : start + _ENTRIES])


@cache
def _map_schema() -> Any:  # noqa: ANN401 - fastavro is untyped
    fields = containers.schema("HoodieSavepointMetadata")["fields"]
    (of_map,) = (entry["type"] for entry in fields if entry["name"] == "partitionMetadata")
    return fastavro.parse_schema(of_map)
