"""Read a topic from its end: newest records first, and no more of them than are taken."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tidegate.errors import FormatError
from tidegate.runtime.bus import Partition, Record

_CHUNK: Final = 500
"""The most records of a partition that are read at a time."""
MAX_BYTES: Final = 32 * 2**20
"""Of the records of all partitions that are in memory, besides one of each partition."""


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
    """Chunk by chunk; of one with too many bytes the newest are kept, the others read again."""
    stop, chunk = span.stop, _CHUNK
    while stop > span.start:
        first = max(span.start, stop - chunk)
        kept, size, dropped = _newest(read({partition: range(first, stop)}), max_bytes)
        stop = kept[0].offset if dropped else first
        # large ones have neighbours of their size: then little is read twice
        if dropped:
            chunk = len(kept)
        elif 2 * size <= max_bytes:
            chunk = min(_CHUNK, 2 * chunk)
        while kept:
            yield kept.pop()


def _newest(records: Iterable[Record], max_bytes: int) -> tuple[deque[Record], int, bool]:
    """The newest of these records, one at least, in order; their bytes; whether there were more."""
    kept, size, dropped = deque[Record](), 0, False
    for record in records:
        kept.append(record)
        size += _size(record)
        while size > max_bytes and len(kept) > 1:
            size -= _size(kept.popleft())
            dropped = True
    return kept, size, dropped


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    try:
        return size + sum(len(value or b"") for _, value in record.headers)
    except FormatError:  # headers that are not UTF-8: the reader says so of this record
        return size
