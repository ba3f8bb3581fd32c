"""Read dead letters newest first, and in batches that fit into memory. Pure."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from tidegate.errors import FormatError
from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from tidegate.ops.dead_letters.box import ListedDeadLetter


_CHUNK: Final = 500
"""The maximum number of records of a partition that are read at a time."""
MAX_BYTES: Final = 32 * 2**20
"""Of all records in memory; one record per partition may exceed it."""


def newest_first(
    spans: Mapping[Partition, range],
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
) -> Iterator[Record]:
    """The records of a topic by the broker's timestamp, newest first.

    Args:
        spans: The offsets of each partition.
        read: Reads spans of offsets, in order.
    """
    share = MAX_BYTES // max(1, len(spans))
    partitions = [_backwards(part, span, read, share) for part, span in spans.items()]
    return heapq.merge(*partitions, key=lambda partition: partition.timestamp_ms, reverse=True)


def _backwards(
    partition: Partition,
    span: range,
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
    max_bytes: int,
) -> Iterator[Record]:
    """The records in chunks. Of a chunk with too many bytes, older records are read again later."""
    stop, chunk = span.stop, _CHUNK
    while stop > span.start:
        first = max(span.start, stop - chunk)
        newest, size, dropped = _newest(read({partition: range(first, stop)}), max_bytes)
        stop = newest[0].offset if dropped else first
        # neighbours of large records are usually large, so smaller chunks avoid reading twice
        if dropped:
            chunk = len(newest)
        elif 2 * size <= max_bytes:
            chunk = min(_CHUNK, 2 * chunk)
        while newest:
            yield newest.pop()


def _newest(records: Iterable[Record], max_bytes: int) -> tuple[deque[Record], int, bool]:
    """The newest records in order (at least one), their bytes, and whether any were dropped."""
    newest, size, dropped = deque[Record](), 0, False
    for record in records:
        newest.append(record)
        size += _size(record)
        while size > max_bytes and len(newest) > 1:
            size -= _size(newest.popleft())
            dropped = True
    return newest, size, dropped


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    try:
        return size + sum(len(value or b"") for _, value in record.headers)
    except FormatError:  # headers that are not UTF-8: `read_dead_letter` handles them
        return size


MAX_DEAD_LETTERS: Final = 500
BATCH_BYTES: Final = 8 * 2**20
"""The values of a batch together; a larger dead letter is a batch of its own."""
_GAP: Final = 1000
"""Skip gaps up to this many records by reading them: that is cheaper than another reader."""
_NOTHING: Final = range(0)


def in_batches(listed: Iterable[ListedDeadLetter]) -> Iterator[Sequence[ListedDeadLetter]]:
    """Group dead letters as they come, so that a batch and its originals fit into memory."""
    batch: list[ListedDeadLetter] = []
    size = 0
    for row in listed:
        value = len(row.dead_letter.record.value or b"")
        if batch and (len(batch) == MAX_DEAD_LETTERS or size + value > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += value
    if batch:
        yield batch


def reading_rounds(
    locations: Iterable[tuple[Partition, int]],
) -> Iterator[Mapping[Partition, range]]:
    """The spans to read for records at these offsets; a round has at most one per partition.

    Dead letters of one cause are neighbours, so a batch usually takes one or two rounds.
    """
    offsets: dict[Partition, list[int]] = {}
    for partition, offset in sorted(set(locations)):
        offsets.setdefault(partition, []).append(offset)
    spans = {partition: _runs(offset) for partition, offset in offsets.items()}
    for together in zip_longest(*spans.values(), fillvalue=_NOTHING):
        yield {part: span for part, span in zip(spans, together, strict=True) if span}


def _runs(offsets: Sequence[int]) -> list[range]:
    runs: list[range] = []
    for offset in offsets:
        if runs and offset - runs[-1].stop <= _GAP:
            runs[-1] = range(runs[-1].start, offset + 1)
        else:
            runs.append(range(offset, offset + 1))
    return runs
