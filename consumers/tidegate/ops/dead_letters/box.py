"""List, redrive and discard the dead letters of a deployment, without a consumer group."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
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
)
from tidegate.publisher import Message
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

_MARGIN_MS: Final = 60 * 60 * 1000
"""The most that two brokers' clocks may differ."""
_CHUNK: Final = 500
"""The maximum number of records of a partition that are read at a time."""
_GAP: Final = 1000
"""Skip gaps up to this many records by reading them: that is cheaper than another reader."""
_BATCH: Final = 100
"""Dead letters in memory together; the value of each has up to a megabyte, and so its original."""
_Location = tuple[Partition, int]


def runs(locations: Iterable[_Location]) -> Iterator[tuple[Partition, range]]:
    """The spans of offsets to read for records at these locations.

    Dead letters of one cause are neighbours, so a batch usually has one run in each partition.
    """
    run: tuple[Partition, range] | None = None
    for partition, offset in sorted(set(locations)):
        if run and run[0] == partition and offset - run[1].stop <= _GAP:
            run = partition, range(run[1].start, offset + 1)
            continue
        if run:
            yield run
        run = partition, range(offset, offset + 1)
    if run:
        yield run


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

    def list(
        self, wanted: DeadLetterFilter, *, include_resolved: bool = False
    ) -> Iterator[DeadLetter]:
        """The dead letters that match, newest first; only open ones, unless `include_resolved`.

        They are read lazily, and without their values, which may have a megabyte each (see
        `batches`). A dead letter that was written twice, after a crash, is listed once.
        """
        spans = self._bus.spans(DEAD_LETTERS.name(self._prefix))
        states = self._states(spans)
        listed: set[str] = set()
        partitions = [self._backwards(part, span) for part, span in spans.items()]
        for dead_letter in heapq.merge(
            *partitions, key=lambda it: it.record.timestamp_ms, reverse=True
        ):
            dead_letter_id = dead_letter.dead_letter_id
            if dead_letter_id in listed or not wanted.matches(dead_letter):
                continue
            state = states.get(dead_letter_id, dead_letter.state)
            if include_resolved or dead_letter_id not in states:
                listed.add(dead_letter_id)
                yield replace(dead_letter, state=state)

    def _backwards(self, partition: Partition, span: range) -> Iterator[DeadLetter]:
        for stop in range(span.stop, span.start, -_CHUNK):
            first = max(span.start, stop - _CHUNK)
            chunk = self._bus.read({partition: range(first, stop)})
            found = (read_dead_letter(record, self.wire) for record in chunk)
            yield from reversed([dead_letter.without_value() for dead_letter in found])

    def _states(self, spans: Mapping[Partition, range]) -> dict[str, str]:
        """The states of resolved dead letters by id: each one's latest resolution counts.

        A resolution is younger than its dead letter, so older outcomes are not read.
        """
        heads = {part: span[:1] for part, span in spans.items() if span}
        if not heads:
            return {}
        times = [record.timestamp_ms for record in self._bus.read(heads)]
        # where no record is at a head, nothing is known of the age of those after it
        oldest = min(times) if len(times) == len(heads) else 0
        topic = OUTCOME_TOPIC.name(self._prefix)
        latest: dict[str, tuple[int, str]] = {}
        for record in self._bus.read(self._bus.spans(topic, max(1, oldest - _MARGIN_MS))):
            if (event := self._resolution(record)) is not None:
                state = "redriven" if isinstance(event, DeadLetterRedriven) else "discarded"
                resolution, dead_letter_id = (record.timestamp_ms, state), event.caused_by or ""
                latest[dead_letter_id] = max(latest.get(dead_letter_id, resolution), resolution)
        return {dead_letter_id: state for dead_letter_id, (_, state) in latest.items()}

    def _resolution(self, record: Record) -> Event | None:
        try:
            kind = self.wire.kind(record.value, record.headers)
            if kind in {DeadLetterRedriven, DeadLetterDiscarded}:
                return self.wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            pass
        return None

    def batches(self, dead_letters: Iterable[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
        """Dead letters with their values, in batches that fit into memory with their originals.

        Raises:
            TidegateError: one is no longer on its topic.
            TransientError: the broker did not answer.
        """
        left = iter(dead_letters)
        while batch := list(islice(left, _BATCH)):
            records = self._read([(it.record.partition, it.record.offset) for it in batch])
            found = list[DeadLetter]()
            for dead_letter in batch:
                record = records.get((dead_letter.record.partition, dead_letter.record.offset))
                if record is None:
                    raise TidegateError(f"{dead_letter.dead_letter_id} is no longer on its topic")
                found.append(replace(dead_letter, record=record))
            yield found

    def originals(
        self, batch: Sequence[DeadLetter]
    ) -> Iterator[tuple[DeadLetter, Record | None, str]]:
        """The records at the origins of dead letters, each compared with its dead letter.

        The text is why it can't be redriven: the two differ, the record is no longer there, or the
        origin is not a topic of this deployment. It is empty if it can be.
        """
        own_topics = {topic.name(self._prefix) for topic in TOPICS}
        origins = {(it.origin, it.origin_offset) for it in batch}
        topics = {part.topic for part, _ in origins} & own_topics
        spans = {part: span for topic in topics for part, span in self._bus.spans(topic).items()}
        records = self._read([(part, at) for part, at in origins if at in spans.get(part, ())])
        for dead_letter in batch:
            record = records.get((dead_letter.origin, dead_letter.origin_offset))
            topic, problem = dead_letter.origin.topic, difference(dead_letter, record)
            if topic not in own_topics:
                problem = f"its origin ({topic or 'unknown'}) is not a topic of this deployment"
            yield dead_letter, record, problem

    def _read(self, locations: Sequence[_Location]) -> dict[_Location, Record]:
        wanted = frozenset(locations)
        return {
            location: record
            for partition, span in runs(wanted)
            for record in self._bus.read({partition: span})
            if (location := (record.partition, record.offset)) in wanted
        }

    def redrive(self, dead_letters: Iterable[DeadLetter], by: str, at: datetime) -> None:
        """Publish originals on their topics again, each once, then the audit events.

        After a crash in between, the batch's dead letters are still open. Redriving them again is
        safe: the originals have the same ids as before.

        Raises:
            TidegateError: one can't be (see `originals`); earlier batches were redriven.
        """
        sent: set[_Location] = set()
        for batch in self.batches(dead_letters):
            messages = dict[_Location, Message]()
            for dead_letter, record, problem in self.originals(batch):
                if record is None or problem:
                    raise TidegateError(
                        f"{dead_letter.dead_letter_id} can't be redriven: {problem}"
                    )
                location = record.partition, record.offset
                messages[location] = redriven_message(dead_letter, record)
            self._bus.send([it for location, it in messages.items() if location not in sent])
            self._publish([audit_event(dead_letter, by, at, self.wire) for dead_letter in batch])
            sent |= messages.keys()

    def discard(
        self, dead_letters: Iterable[DeadLetter], by: str, at: datetime, reason: str
    ) -> None:
        """Publish audit events that mark these dead letters as discarded."""
        for batch in self.batches(dead_letters):
            self._publish([audit_event(it, by, at, self.wire, discarded=reason) for it in batch])

    def _publish(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.serialize(event, topic) for event in events])
