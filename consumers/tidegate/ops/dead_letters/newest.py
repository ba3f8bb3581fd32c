"""Read a topic from its end: newest records first, and no more of them than are taken."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tidegate.runtime.bus import Partition, Record

_CHUNK: Final = 500
"""Records of a partition that are read, and in memory, at a time."""


def newest_first(
    spans: Mapping[Partition, range],
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
) -> Iterator[Record]:
    """The records of a topic by the broker's timestamp, newest first.

    Args:
        spans: The offsets of each partition.
        read: Reads spans of offsets, in order.
    """
    partitions = [_backwards(part, span, read) for part, span in spans.items()]
    return heapq.merge(*partitions, key=lambda each: each.timestamp_ms, reverse=True)


def _backwards(
    partition: Partition,
    span: range,
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
) -> Iterator[Record]:
    for stop in range(span.stop, span.start, -_CHUNK):
        chunk = range(max(span.start, stop - _CHUNK), stop)
        yield from reversed(list(read({partition: chunk})))
