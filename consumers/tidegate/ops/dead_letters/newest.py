"""Read a topic lazily from its end, newest records first."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tidegate.errors import FormatError
from tidegate.runtime.bus import Partition, Record

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
