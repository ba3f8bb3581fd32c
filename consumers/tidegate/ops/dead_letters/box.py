"""The dead letters of a deployment: read outside of any group, redriven, discarded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from tidegate.errors import TidegateError
from tidegate.events import Event
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, TOPICS
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import DeadLetter, read_dead_letter
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


@dataclass(frozen=True, slots=True)
class ListedDeadLetter:
    """A dead letter and its resolution: open, redriven or discarded."""

    dead_letter: DeadLetter
    state: str


@dataclass(frozen=True, slots=True)
class Original:
    """The record that a dead letter came from, and its event, if it can be decoded."""

    dead_letter: DeadLetter
    record: Record
    event: Event | None


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

    def list(
        self, wanted: DeadLetterFilter, *, include_resolved: bool = False
    ) -> Iterator[ListedDeadLetter]:
        """The dead letters that match, newest first; open ones only, unless `include_resolved`.

        They are read as they are taken, so that a few of many cost little. A dead letter that was
        written twice, after a crash, is listed once.
        """
        spans = self._log.spans(DEAD_LETTERS.name(self._prefix))
        resolutions = Resolutions(self._log, OUTCOME_TOPIC.name(self._prefix), self.wire)
        listed: set[str] = set()
        for record in newest_first(spans, self._log.read):
            dead_letter = read_dead_letter(record)
            if dead_letter.dead_letter_id in listed or not wanted.matches(dead_letter):
                continue
            state = resolutions.state_of(dead_letter.dead_letter_id, record.timestamp_ms)
            if include_resolved or state == OPEN:
                listed.add(dead_letter.dead_letter_id)
                yield ListedDeadLetter(dead_letter, state)

    def originals(self, dead_letters: Sequence[DeadLetter]) -> Sequence[Original]:
        """The records that dead letters came from, each compared with its dead letter.

        Raises:
            TidegateError: a dead letter is not what the record at its origin is, that is no longer
                there, or it is not on a topic of this deployment.
        """
        own_topics = {topic.name(self._prefix) for topic in TOPICS}
        spans = {
            part: span
            for topic in {each.origin.topic for each in dead_letters} & own_topics
            for part, span in self._log.spans(topic).items()
        }
        found: dict[tuple[Partition, int], Original] = {}
        for each in dead_letters:
            if each.origin.topic not in own_topics:
                raise TidegateError(
                    f"{each.dead_letter_id} can't be redriven: its origin"
                    f" ({each.origin.topic or 'unknown'}) is not a topic of this deployment"
                )
            at = each.origin_offset
            record = self._at(each.origin, at) if at in spans.get(each.origin, ()) else None
            if reason := difference(each, record):
                raise TidegateError(f"{each.dead_letter_id} can't be redriven: {reason}")
            if record is not None:
                event = replace(each, record=record).event(self.wire)
                found.setdefault((each.origin, at), Original(each, record, event))
        return list(found.values())

    def _at(self, partition: Partition, offset: int) -> Record | None:
        return next(iter(self._log.read({partition: range(offset, offset + 1)})), None)

    def redrive(
        self,
        originals: Sequence[Original],
        dead_letters: Sequence[DeadLetter],
        by: str,
        at: datetime,
    ) -> None:
        """Publish originals on their topics again, then the audit events of their dead letters.

        A crash in between leaves them open: redriven again, they have the ids they had.
        """
        self._bus.send([redriven_message(each.dead_letter, each.record) for each in originals])
        self._publish([redriven_event(each, by, at, self.wire) for each in dead_letters])

    def discard(
        self, dead_letters: Sequence[DeadLetter], by: str, at: datetime, reason: str
    ) -> None:
        """Publish the audit events: these dead letters are not needed."""
        self._publish([discarded_event(each, by, at, self.wire, reason) for each in dead_letters])

    def _publish(self, events: Sequence[Event]) -> None:
        topic = OUTCOME_TOPIC.name(self._prefix)
        self._bus.send([self.wire.serialize(event, topic) for event in events])
