"""List, redrive and discard the dead letters of a deployment, without a consumer group."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, zip_longest
from typing import Final, Self

from tidegate.errors import FormatError, TidegateError
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven, Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import (
    DeadLetter,
    DeadLetterFilter,
    audit_event,
    difference,
    read_dead_letter,
    redriven_message,
    without_value,
)
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

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

    topics: KafkaBus
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
        since = self.topics.spans(self.topic, self._since_ms)
        before = self._before
        unread = {part: range(min(since[part].start, stop), stop) for part, stop in before.items()}
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


_Location = tuple[Partition, int]
BATCH: Final = 100
"""Dead letters in memory together; the value of each has up to a megabyte, and so its original."""


@dataclass(frozen=True, slots=True)
class Original:
    """The record that failed, and its event, or None if it can't be decoded."""

    dead_letter: DeadLetter
    record: Record
    event: Event | None

    @property
    def location(self) -> _Location:
        """Partition and offset of the record."""
        return self.record.partition, self.record.offset


class DeadLetterBox:
    """The operations of `tidegate dead-letters`. Nothing is ever removed from the topic."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the cluster of the settings."""
        self._prefix = settings.topics.prefix
        self._bus = KafkaBus(settings.connection())
        self.wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def spans(self) -> Mapping[Partition, range]:
        """The offsets of the dead letters that are on the topic now."""
        return self._bus.spans(DEAD_LETTERS.name(self._prefix))

    def list(
        self,
        wanted: DeadLetterFilter,
        *,
        include_resolved: bool = False,
        within: Mapping[Partition, range] | None = None,
    ) -> Iterator[DeadLetter]:
        """The dead letters that match, newest first; only open ones, unless `include_resolved`.

        They are read lazily, so the first few cost little, and without their values, which may have
        a megabyte each (see `with_values`). A dead letter that was written twice, after a crash, is
        listed once.

        Args:
            wanted: The conditions.
            include_resolved: Whether to list resolved ones, too.
            within: Only dead letters at these offsets; None: all that are on the topic now.
        """
        spans = self.spans() if within is None else within
        resolutions = Resolutions(self._bus, OUTCOME_TOPIC.name(self._prefix), self.wire)
        listed: set[str] = set()
        for record in newest_first(spans, lambda part: map(without_value, self._bus.read(part))):
            dead_letter = read_dead_letter(record)
            if dead_letter.dead_letter_id in listed or not wanted.matches(dead_letter):
                continue
            state = resolutions.state_of(dead_letter.dead_letter_id, record.timestamp_ms)
            if include_resolved or state == OPEN:
                listed.add(dead_letter.dead_letter_id)
                yield replace(dead_letter, state=state)

    def with_values(self, dead_letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        """The same dead letters with their values.

        Raises:
            TidegateError: one is no longer on its topic.
            TransientError: the broker did not answer.
        """
        wanted = [(it.record.partition, it.record.offset) for it in dead_letters]
        found = self._read(wanted)
        for location, dead_letter in zip(wanted, dead_letters, strict=True):
            if location not in found:
                raise TidegateError(f"{dead_letter.dead_letter_id} is no longer on its topic")
        return [
            replace(read_dead_letter(found[location]), state=dead_letter.state)
            for location, dead_letter in zip(wanted, dead_letters, strict=True)
        ]

    def batches(
        self,
        wanted: DeadLetterFilter,
        *,
        include_resolved: bool = False,
        within: Mapping[Partition, range] | None = None,
    ) -> Iterator[Sequence[DeadLetter]]:
        """The same as `list`, with values, in batches that fit into memory with their originals."""
        listed = self.list(wanted, include_resolved=include_resolved, within=within)
        while batch := list(islice(listed, BATCH)):
            yield self.with_values(batch)

    def originals(self, dead_letters: Sequence[DeadLetter]) -> Sequence[Original]:
        """The records at the origins of dead letters, each compared with its dead letter.

        Raises:
            TidegateError: a dead letter differs from the record at its origin, that record is no
                longer there, or the origin is not a topic of this deployment.
        """
        own_topics = {topic.name(self._prefix) for topic in TOPICS}
        for dead_letter in dead_letters:
            if dead_letter.origin.topic not in own_topics:
                raise TidegateError(
                    f"{dead_letter.dead_letter_id} can't be redriven: its origin"
                    f" ({dead_letter.origin.topic or 'unknown'}) is not a topic of this deployment"
                )
        origins = {(it.origin, it.origin_offset) for it in dead_letters}
        topics = {part.topic for part, _ in origins}
        spans = {part: span for topic in topics for part, span in self._bus.spans(topic).items()}
        records = self._read([(part, at) for part, at in origins if at in spans.get(part, ())])
        found: dict[_Location, Original] = {}
        for dead_letter in dead_letters:
            location = dead_letter.origin, dead_letter.origin_offset
            record = records.get(location)
            if reason := difference(dead_letter, record):
                raise TidegateError(f"{dead_letter.dead_letter_id} can't be redriven: {reason}")
            if record is not None:
                event = replace(dead_letter, record=record).event(self.wire)
                found.setdefault(location, Original(dead_letter, record, event))
        return list(found.values())

    def _read(self, locations: Sequence[_Location]) -> dict[_Location, Record]:
        wanted = frozenset(locations)
        return {
            location: record
            for round_ in reading_rounds(wanted)
            for record in self._bus.read(round_)
            if (location := (record.partition, record.offset)) in wanted
        }

    def redrive(self, batches: Iterable[Sequence[DeadLetter]], by: str, at: datetime) -> None:
        """Publish originals on their topics again, each once, then the audit events.

        After a crash in between, the batch's dead letters are still open. Redriving them again is
        safe: the originals have the same ids as before.

        Raises:
            TidegateError: see `originals`; earlier batches were redriven.
        """
        sent: set[_Location] = set()
        for batch in batches:
            found = {original.location: original for original in self.originals(batch)}
            new = [original for location, original in found.items() if location not in sent]
            self._bus.send(
                [redriven_message(original.dead_letter, original.record) for original in new]
            )
            self._publish([audit_event(dead_letter, by, at, self.wire) for dead_letter in batch])
            sent |= found.keys()

    def discard(
        self, batches: Iterable[Sequence[DeadLetter]], by: str, at: datetime, reason: str
    ) -> None:
        """Publish audit events that mark these dead letters as discarded."""
        for batch in batches:
            self._publish(
                [
                    audit_event(dead_letter, by, at, self.wire, discarded=reason)
                    for dead_letter in batch
                ]
            )

    def _publish(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.serialize(event, topic) for event in events])
