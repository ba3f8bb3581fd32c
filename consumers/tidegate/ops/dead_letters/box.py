"""The dead letters of a deployment: read outside of any group, redriven, discarded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from tidegate.errors import TidegateError
from tidegate.events import Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.batches import reading_rounds
from tidegate.ops.dead_letters.dead_letter import DeadLetter, read_dead_letter, without_value
from tidegate.ops.dead_letters.newest import newest_first
from tidegate.ops.dead_letters.origin import difference
from tidegate.ops.dead_letters.resolution import discarded_event, redriven_event, redriven_message
from tidegate.ops.dead_letters.selection import DeadLetterFilter
from tidegate.ops.dead_letters.states import OPEN, Resolutions
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.topic_reader import Observer, TopicReader
from tidegate.service.settings import Settings

_Place = tuple[Partition, int]


@dataclass(frozen=True, slots=True)
class ListedDeadLetter:
    """A dead letter and its resolution: open, redriven or discarded."""

    dead_letter: DeadLetter
    state: str

    def without_value(self) -> Self:
        """The same, in little memory."""
        slim = replace(self.dead_letter, record=without_value(self.dead_letter.record), headers=())
        return replace(self, dead_letter=slim)


@dataclass(frozen=True, slots=True)
class Original:
    """The record that a dead letter came from, and its event, if it can be decoded."""

    dead_letter: DeadLetter
    record: Record
    event: Event | None

    @property
    def place(self) -> _Place:
        """Where the record is."""
        return self.record.partition, self.record.offset


class DeadLetterBox:
    """What `tidegate dead-letters` does. Nothing is ever removed from the topic."""

    def __init__(self, settings: Settings, progress: Observer = iter) -> None:
        """Connect to the cluster of the settings; what is read passes through `progress`."""
        connection = settings.connection()
        self._prefix = settings.topics.prefix
        self._bus = KafkaBus(connection)
        self._log = TopicReader(connection, self._bus, progress)
        self.wire: Wire = wire_for(settings.registry)

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._bus.close()

    def spans(self) -> Mapping[Partition, range]:
        """The offsets that the dead letters have now."""
        return self._log.spans(DEAD_LETTERS.name(self._prefix))

    def list(
        self,
        wanted: DeadLetterFilter,
        *,
        include_resolved: bool = False,
        within: Mapping[Partition, range] | None = None,
        values: bool = False,
    ) -> Iterator[ListedDeadLetter]:
        """The dead letters that match, newest first; open ones only, unless `include_resolved`.

        They are read as they are taken, so that a few of many cost little. A dead letter that was
        written twice, after a crash, is listed once.

        Args:
            wanted: Which.
            include_resolved: Whether resolved ones are listed, too.
            within: Only those at these offsets; None: all that there are now.
            values: Whether their records have the values, of which each may be a megabyte;
                `whole` reads one again.
        """
        spans = self.spans() if within is None else within
        resolutions = Resolutions(self._log, OUTCOME_TOPIC.name(self._prefix), self.wire)
        listed: set[str] = set()
        read = self._log.read if values else self._without_values
        for record in newest_first(spans, read):
            dead_letter = read_dead_letter(record)
            if dead_letter.dead_letter_id in listed or not wanted.matches(dead_letter):
                continue
            state = resolutions.state_of(dead_letter.dead_letter_id, record.timestamp_ms)
            if include_resolved or state == OPEN:
                listed.add(dead_letter.dead_letter_id)
                yield ListedDeadLetter(dead_letter, state)

    def whole(self, dead_letter: DeadLetter) -> DeadLetter:
        """The same dead letter with its value.

        Raises:
            TidegateError: it is no longer on its topic.
            TransientError: it could not be read now.
        """
        part, offset = dead_letter.record.partition, dead_letter.record.offset
        for record in self._log.read({part: range(offset, offset + 1)}):
            return read_dead_letter(record)
        raise TidegateError(f"{dead_letter.dead_letter_id} is no longer on its topic")

    def _without_values(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        return map(without_value, self._log.read(spans))

    def originals(self, dead_letters: Sequence[DeadLetter]) -> Sequence[Original]:
        """The records that dead letters came from, each compared with its dead letter.

        Raises:
            TidegateError: a dead letter is not what the record at its origin is, that is no longer
                there, or it is not on a topic of this deployment.
        """
        own_topics = {topic.name(self._prefix) for topic in TOPICS}
        for dead_letter in dead_letters:
            if dead_letter.origin.topic not in own_topics:
                raise TidegateError(
                    f"{dead_letter.dead_letter_id} can't be redriven: its origin"
                    f" ({dead_letter.origin.topic or 'unknown'}) is not a topic of this deployment"
                )
        records = self._records(
            {(dead_letter.origin, dead_letter.origin_offset) for dead_letter in dead_letters}
        )
        found: dict[_Place, Original] = {}
        for dead_letter in dead_letters:
            place = dead_letter.origin, dead_letter.origin_offset
            record = records.get(place)
            if reason := difference(dead_letter, record):
                raise TidegateError(f"{dead_letter.dead_letter_id} can't be redriven: {reason}")
            if record is not None:
                event = replace(dead_letter, record=record).event(self.wire)
                found.setdefault(place, Original(dead_letter, record, event))
        return list(found.values())

    def _records(self, places: AbstractSet[_Place]) -> dict[_Place, Record]:
        """The records at these places; what is no longer there is left out."""
        topics = {part.topic for part, _ in places}
        held = {part: span for topic in topics for part, span in self._log.spans(topic).items()}
        there = [place for place in places if place[1] in held.get(place[0], ())]
        return {
            place: record
            for spans in reading_rounds(there)
            for record in self._log.read(spans)
            if (place := (record.partition, record.offset)) in places
        }

    def redrive(self, batches: Iterable[Sequence[DeadLetter]], by: str, at: datetime) -> None:
        """Publish originals on their topics again, each once, then the audit events.

        A crash in between leaves the dead letters of a batch open: redriven again, their originals
        have the ids they had.

        Raises:
            TidegateError: as `originals`; the batches before are redriven.
        """
        sent: set[_Place] = set()
        for batch in batches:
            found = {original.place: original for original in self.originals(batch)}
            new = [original for place, original in found.items() if place not in sent]
            self._bus.send([redriven_message(each.dead_letter, each.record) for each in new])
            self._publish([redriven_event(each, by, at, self.wire) for each in batch])
            sent |= found.keys()

    def discard(
        self, batches: Iterable[Sequence[DeadLetter]], by: str, at: datetime, reason: str
    ) -> None:
        """Publish the audit events: these dead letters are not needed."""
        for batch in batches:
            self._publish([discarded_event(each, by, at, self.wire, reason) for each in batch])

    def _publish(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.serialize(event, topic) for event in events])
