"""Read dead letters newest first, their resolutions, and their originals in few rounds."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.partition_reader import TopicReader

OPEN: Final = "open"
MARGIN_MS: Final = 60 * 60 * 1000
"""The most that two brokers' clocks may differ, and the shortest span that is read."""
_RESOLUTIONS: Final = (DeadLetterRedriven, DeadLetterDiscarded)
_CHUNK: Final = 500
"""The maximum number of records of a partition that are read at a time."""
_GAP: Final = 1000
"""Skip gaps up to this many records by reading them: that is cheaper than another reader."""
_NOTHING: Final = range(0)


def newest_first(
    spans: Mapping[Partition, range],
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
) -> Iterator[Record]:
    """The records of a topic by the broker's timestamp, newest first.

    Args:
        spans: The offsets of each partition.
        read: Reads spans of offsets, in order, without values: a chunk is held in memory.
    """
    partitions = [_backwards(part, span, read) for part, span in spans.items()]
    return heapq.merge(*partitions, key=lambda partition: partition.timestamp_ms, reverse=True)


def _backwards(
    partition: Partition,
    span: range,
    read: Callable[[Mapping[Partition, range]], Iterable[Record]],
) -> Iterator[Record]:
    for stop in range(span.stop, span.start, -_CHUNK):
        first = max(span.start, stop - _CHUNK)
        yield from reversed(list(read({partition: range(first, stop)})))


@dataclass(slots=True)
class Resolutions:
    """The resolutions by dead letter id; the latest one per dead letter counts.

    A resolution is younger than its dead letter. So only outcomes younger than the requested ones
    are read, each once: the newest dead letters cost little, even with many outcomes.
    """

    topics: TopicReader
    topic: str
    wire: Wire
    _before: dict[Partition, int] | None = None
    """The offset from which each partition was read."""
    _since_ms: int = 0
    _step_ms: int = MARGIN_MS
    _latest: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    def state_of(self, dead_letter_id: str, appended_ms: int) -> str:
        """The state of a dead letter: open, redriven or discarded.

        Args:
            dead_letter_id: The dead letter's id.
            appended_ms: When the broker appended it, in milliseconds since the epoch.
        """
        if self._before is None or appended_ms - MARGIN_MS < self._since_ms:
            self._read_back_to(appended_ms - MARGIN_MS)
        _, state = self._latest.get(dead_letter_id, (0, OPEN))
        return state

    def _read_back_to(self, since_ms: int) -> None:
        # every step reads twice as far back, so that thousands of dead letters cost few requests
        self._since_ms = max(0, since_ms - self._step_ms)
        self._step_ms *= 2
        if self._before is None:
            self._before = {part: span.stop for part, span in self.topics.spans(self.topic).items()}
        at = datetime.fromtimestamp(self._since_ms / 1000, UTC)
        starts = self.topics.offsets_at(self.topic, at)
        before = self._before
        unread = {part: range(min(starts[part], stop), stop) for part, stop in before.items()}
        for record in self.topics.read(unread):
            self._record_resolution(record)
        self._before = {part: span.start for part, span in unread.items()}

    def _record_resolution(self, record: Record) -> None:
        try:
            if self.wire.kind(record.value, record.headers) not in _RESOLUTIONS:
                return
            event = self.wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            return
        state = "redriven" if isinstance(event, DeadLetterRedriven) else "discarded"
        resolution = (record.timestamp_ms, state)
        dead_letter_id = event.caused_by or ""
        known = self._latest.get(dead_letter_id, resolution)
        self._latest[dead_letter_id] = max(known, resolution)


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
