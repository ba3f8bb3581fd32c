"""List, redrive and discard the dead letters of a deployment, without a consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final, Self

from tidegate.errors import TidegateError
from tidegate.events import Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import (
    DeadLetter,
    DeadLetterFilter,
    difference,
    discarded_event,
    read_dead_letter,
    redriven_event,
    redriven_message,
    without_value,
)
from tidegate.ops.dead_letters.reading import OPEN, Resolutions, newest_first, reading_rounds
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.partition_reader import TopicReader
from tidegate.service.settings import Settings

_Location = tuple[Partition, int]
BATCH: Final = 100
"""Dead letters in memory together; the value of each has up to a megabyte, and so its original."""


@dataclass(frozen=True, slots=True)
class ListedDeadLetter:
    """A dead letter and its resolution: open, redriven or discarded."""

    dead_letter: DeadLetter
    state: str


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
        connection = settings.connection()
        self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicReader(connection, self._bus)
        self.wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def spans(self) -> Mapping[Partition, range]:
        """The offsets of the dead letters that are on the topic now."""
        return self._log.spans(DEAD_LETTERS.name(self._prefix))

    def list(
        self,
        wanted: DeadLetterFilter,
        *,
        include_resolved: bool = False,
        within: Mapping[Partition, range] | None = None,
    ) -> Iterator[ListedDeadLetter]:
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
        resolutions = Resolutions(self._log, OUTCOME_TOPIC.name(self._prefix), self.wire)
        listed: set[str] = set()
        for record in newest_first(spans, lambda part: map(without_value, self._log.read(part))):
            dead_letter = read_dead_letter(record)
            if dead_letter.dead_letter_id in listed or not wanted.matches(dead_letter):
                continue
            state = resolutions.state_of(dead_letter.dead_letter_id, record.timestamp_ms)
            if include_resolved or state == OPEN:
                listed.add(dead_letter.dead_letter_id)
                yield ListedDeadLetter(dead_letter, state)

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
        return [read_dead_letter(found[location]) for location in wanted]

    def batches(
        self,
        wanted: DeadLetterFilter,
        *,
        include_resolved: bool = False,
        within: Mapping[Partition, range] | None = None,
    ) -> Iterator[Sequence[ListedDeadLetter]]:
        """The same as `list`, with values, in batches that fit into memory with their originals."""
        listed = self.list(wanted, include_resolved=include_resolved, within=within)
        while batch := list(islice(listed, BATCH)):
            full = self.with_values([row.dead_letter for row in batch])
            yield [
                ListedDeadLetter(dead_letter, row.state)
                for dead_letter, row in zip(full, batch, strict=True)
            ]

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
        spans = {part: span for topic in topics for part, span in self._log.spans(topic).items()}
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
            for record in self._log.read(round_)
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
            self._publish([redriven_event(dead_letter, by, at, self.wire) for dead_letter in batch])
            sent |= found.keys()

    def discard(
        self, batches: Iterable[Sequence[DeadLetter]], by: str, at: datetime, reason: str
    ) -> None:
        """Publish audit events that mark these dead letters as discarded."""
        for batch in batches:
            self._publish(
                [discarded_event(dead_letter, by, at, self.wire, reason) for dead_letter in batch]
            )

    def _publish(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.serialize(event, topic) for event in events])
