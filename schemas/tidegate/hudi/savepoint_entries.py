"""The partitions of a savepoint as encoded blocks: a change rewrites the blocks that it is in.

Avro lets a map be written in blocks, each with its size. A savepoint's are sorted by partition, so
that a partition's block is found and all others are copied without a look at what is in them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Final, Self

import fastavro

from tidegate.errors import FormatError
from tidegate.hudi import containers

_ENTRIES: Final = 32
"""Partitions in a block: fewer than 64, so that their number takes one byte."""

Files = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    first: str
    count: int
    payload: bytes

    @classmethod
    def of(cls, entries: Sequence[tuple[str, Files]]) -> Self:
        record = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in entries
        }
        content = containers.encode_value(_map_schema(), record)
        # a byte with their number before them, and one that says that no more blocks follow
        return cls(entries[0][0], len(entries), content[1:-1])

    def decode(self) -> dict[str, Files]:
        content = containers.long(self.count) + self.payload + b"\0"
        record: dict[str, Any] = containers.decode_value(_map_schema(), content)
        if len(record) != self.count:
            raise FormatError("a block of the savepoint has not the partitions that it says")
        return {p: tuple(entry["savepointDataFile"]) for p, entry in record.items()}


@dataclass(frozen=True)
class SavepointEntries(Mapping[str, Files]):
    """Partition to file names; a block is decoded when it is asked for one of its partitions."""

    blocks: tuple[_Block, ...]
    _decoded: dict[int, dict[str, Files]] = field(
        default_factory=dict[int, dict[str, Files]], repr=False, compare=False
    )

    @classmethod
    def of(cls, files: Mapping[str, Files]) -> Self:
        """Encode them."""
        return cls(tuple(_blocks(files)))

    @classmethod
    def read(cls, data: bytes, position: int) -> tuple[Self, int]:
        """Read those that `encode` wrote, and where they end.

        Raises:
            FormatError: they are not in sorted blocks with sizes, as Hudi's own are not.
        """
        blocks = list[_Block]()
        while True:
            count, position = containers.read_long(data, position)
            if count == 0:
                break
            if count > 0:
                raise FormatError("the savepoint's partitions are not in blocks with sizes")
            payload, position = containers.read_bytes(data, position)
            first, _ = containers.read_bytes(payload, 0)
            blocks.append(_Block(first.decode("utf-8", "replace"), -count, payload))
        if any(block.first >= after.first for block, after in pairwise(blocks)):
            raise FormatError("the savepoint's partitions are not sorted")
        return cls(tuple(blocks)), position

    def encode(self) -> bytes:
        """The map as a record has it."""
        parts = (
            (containers.long(-block.count), containers.long(len(block.payload)), block.payload)
            for block in self.blocks
        )
        return b"".join(each for part in parts for each in part) + containers.long(0)

    def changed(self, changes: Mapping[str, Files | None]) -> SavepointEntries:
        """With other files of these partitions; None: without the partition.

        Raises:
            FormatError: a block in which they are can't be read.
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
        return sum(block.count for block in self.blocks)

    def __iter__(self) -> Iterator[str]:
        """The partitions, sorted."""
        for number in range(len(self.blocks)):
            yield from self._entries(number)

    def _block_of(self, partition: str) -> int:
        after = bisect_right(self.blocks, partition, key=lambda block: block.first)
        return max(0, after - 1)

    def _entries(self, number: int) -> dict[str, Files]:
        if number not in self._decoded:
            self._decoded[number] = self.blocks[number].decode()
        return self._decoded[number]


def _blocks(files: Mapping[str, Files]) -> Iterator[_Block]:
    entries = sorted(files.items())
    for start in range(0, len(entries), _ENTRIES):
        yield _Block.of(entries[start : start + _ENTRIES])


@cache
def _map_schema() -> Any:  # noqa: ANN401 - as fastavro gives it
    fields = containers.schema("HoodieSavepointMetadata")["fields"]
    (of_map,) = (each["type"] for each in fields if each["name"] == "partitionMetadata")
    return fastavro.parse_schema(of_map)
