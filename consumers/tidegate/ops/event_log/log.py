"""Read a topic's events without a consumer group, by table and time, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from itertools import chain
from typing import Final, Self

from confluent_kafka import TopicPartition

from tidegate.errors import ConfigError, FormatError
from tidegate.events import TaskIssued
from tidegate.events.catalogue import CARRIED
from tidegate.events.holds import ANYWHERE
from tidegate.events.keys import partition_of
from tidegate.events.topics import (
    COMMITS,
    LOCKS,
    OUTCOME_TOPIC,
    REQUEST_TOPIC,
    TASK_TOPIC,
    VACUUMS,
    Topic,
)
from tidegate.events.wire import Wire, command_of
from tidegate.ops.event_log.logged import EventFilter, JoinedLog, LoggedEvent
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.merged_reader import MergedReader
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import standalone_consumer
from tidegate.runtime.kafka.records import Config
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.settings import Settings

_TIMEOUT: Final = 10.0
_PARTS: Final = 100
"""The maximum number of parts of an outcome; so many more are read that none is cut off."""
_RETRIES: Final = RetryPolicy(attempts=6, first=0.1, longest=1.0)
"""For the election of a leader, or a new topic."""
_LOCATIONS: Final = 5
"""How many locations an error names."""
ALL: Final = EventFilter()
_BRIEF: Final = EventFilter(is_brief=True)
TOPICS: Final = (COMMITS, VACUUMS, LOCKS, REQUEST_TOPIC, TASK_TOPIC, OUTCOME_TOPIC)
"""The topics whose events name tables."""
_CARRIED: Final = {kind.__name__ for kind in CARRIED}
"""Shown in place of the tasks that carry them."""


class NewestEvents(deque[LoggedEvent]):
    """The newest events up to a limit, oldest first, without the bytes of their records."""

    def __init__(self, limit: int, events: Iterable[LoggedEvent] = ()) -> None:
        """Take events, and retain the last `limit` ones."""
        super().__init__(maxlen=limit)
        self.dropped = 0
        """The number of older events that were dropped."""
        for event in events:
            self.add(event)

    def add(self, logged: LoggedEvent) -> None:
        """Take the next event."""
        self.dropped += len(self) == self.maxlen
        self.append(replace(logged, record=logged.record._replace(value=None, headers=())))


class EventLog:
    """The events of a deployment's topics, read-only; no group's offsets change."""

    def __init__(self, config: Config, prefix: str, wire: Wire, metadata: KafkaMetadata) -> None:
        """Take librdkafka's settings, the prefix of the topics, and the decoder of events."""
        self._config, self._prefix, self._wire = config, prefix, wire
        self._metadata = metadata

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The log of a deployment; its requests fail within seconds if no broker answers."""
        connection = settings.connection()
        metadata = KafkaMetadata.for_people(connection)
        return cls(connection, settings.topics.prefix, wire_for(settings.registry), metadata)

    def read(
        self,
        topic: Topic = OUTCOME_TOPIC,
        wanted: EventFilter = ALL,
        *,
        since: datetime | None = None,
        limit: int | None = None,
        follow: bool = False,
    ) -> Iterator[LoggedEvent | None]:
        """The events of a topic that match, oldest first by the broker's timestamp.

        They are read lazily: memory does not grow with the topic. An outcome in parts is one event,
        with the location and time of its last part.

        Args:
            topic: One of the declared topics.
            wanted: The conditions. For exact table names only those tables' partitions are read.
            since: Start with events that the broker appended at this time or later; None: all.
            limit: Only this many of the newest events that are on the topic now.
            follow: Continue with new events without end; yields None now and then, so that the
                caller can stop.

        Raises:
            ConfigError: the topic does not exist.
            TransientError: no broker answers.
        """
        spans = self.spans(topic, wanted, since)
        if limit is not None and wanted in {ALL, _BRIEF}:
            # the newest are among the last of each partition; an outcome precedes a task's end
            count = 2 * limit + _PARTS
            spans = {p: range(max(s.start, s.stop - count), s.stop) for p, s in spans.items()}
        joined = JoinedLog()
        with MergedReader(self._config, spans) as reader:
            found = self._wanted(reader.records(), wanted, joined)
            if not follow:
                found = chain(found, joined.rest())
            yield from found if limit is None else NewestEvents(limit, found)
            if follow:
                for record in reader.following():
                    if record is None:
                        yield None
                    else:
                        yield from self._wanted([record], wanted, joined)

    def tables(self, topic: Topic, table: str | None = None) -> Iterator[str]:
        """The tables that a topic's keys name; with a table, only those of its partition."""
        wanted = ALL if table is None else EventFilter((table,))
        with MergedReader(self._config, self.spans(topic, wanted)) as reader:
            for record in reader.records():
                yield (record.key or b"").decode(errors="replace")

    def check_named(self, table: str, otherwise: str) -> None:
        """Check that an event on any topic names a table; `otherwise`: what to do else.

        Raises:
            ConfigError: no event does; the message has the nearest names.
        """
        if not any(name == table for topic in TOPICS for name in self.tables(topic, table)):
            raise self._unknown(table, otherwise)

    def location_of(self, table: str) -> str:
        """The location of a table, from the events that name it.

        Writers' events decide, else requests and outcomes. A request may name a wrong location, and
        so may its refusal.

        Raises:
            ConfigError: no event names the table, or events name it at several locations.
        """
        for topics in ((COMMITS, VACUUMS, LOCKS), (REQUEST_TOPIC, OUTCOME_TOPIC)):
            found = {
                logged.event.location.rstrip("/")
                for topic in topics
                for logged in self.read(topic, EventFilter((table,)))
                if logged is not None and logged.event is not None
            } - {ANYWHERE}
            if len(found) > 1:
                named = ", ".join(sorted(found)[:_LOCATIONS])
                raise ConfigError(f"events name {table} at several locations: {named}: give one")
            if found:
                return found.pop()
        raise self._unknown(table, "for a new table, give its location")

    def _unknown(self, table: str, otherwise: str) -> ConfigError:
        names = {name for topic in TOPICS for name in self.tables(topic)}
        near = " or ".join(get_close_matches(table, names))
        meant = f"; did you mean {near}?" if near else ""
        return ConfigError(f"no event names the table {table}{meant} ({otherwise})")

    def _wanted(
        self, records: Iterable[Record], wanted: EventFilter, joined: JoinedLog
    ) -> Iterator[LoggedEvent]:
        for record in records:
            if (logged := self._logged(record, wanted)) is not None:
                yield from joined.add(logged)

    def _logged(self, record: Record, wanted: EventFilter) -> LoggedEvent | None:
        """The event of a record, or None if it does not match."""
        key, value, headers = record.key, record.value, record.headers
        try:
            kind = self._wire.kind(value, headers)
            if kind is TaskIssued:
                return self._of_task(record, wanted)
            if not wanted.may_match(key, kind) or not wanted.may_have_ids(value):
                return None
            event = self._wire.deserialize(key, value, headers)
        except FormatError as error:
            return None if wanted.names_an_id else LoggedEvent(record, None, str(error))
        return LoggedEvent(record, event) if wanted.matches(event) else None

    def _of_task(self, record: Record, wanted: EventFilter) -> LoggedEvent | None:
        """A task, or in its place the command that only tasks carry."""
        if not wanted.may_have_ids(record.value):
            return None
        event = self._wire.deserialize(record.key, record.value, record.headers)
        if isinstance(event, TaskIssued) and event.kind in _CARRIED:
            event = command_of(event, self._wire)
        is_wanted = wanted.may_match(record.key, type(event)) and wanted.matches(event)
        return LoggedEvent(record, event) if is_wanted else None

    def spans(
        self, topic: Topic, wanted: EventFilter = ALL, since: datetime | None = None
    ) -> Mapping[Partition, range]:
        """The offsets to read, by partition, up to the current end."""
        name = topic.name(self._prefix)
        self._metadata.require_connection()
        count = _RETRIES.call(lambda: self._metadata.partitions(name))
        tables = wanted.exact_tables
        numbers = range(count) if tables is None else {partition_of(t, count) for t in tables}
        parts = [Partition(name, number) for number in sorted(numbers)]
        marks = _RETRIES.call(lambda: self._metadata.watermarks(parts))
        if since is None:
            return {part: range(mark.first, mark.end) for part, mark in marks.items()}
        starts = _RETRIES.call(lambda: self._offsets_at(parts, since))
        return {part: range(starts.get(part, mark.end), mark.end) for part, mark in marks.items()}

    def _offsets_at(self, parts: list[Partition], since: datetime) -> dict[Partition, int]:
        """The first offset of each partition at or after a time; left out if there is none."""
        moment_ms = max(0, int(since.timestamp() * 1000))
        consumer = standalone_consumer(self._config, parts[0].topic)
        try:
            with translate_kafka_errors(f"{parts[0].topic}: offsets at {since.isoformat()}"):
                asked = [TopicPartition(*part, moment_ms) for part in parts]
                found = consumer.offsets_for_times(asked, timeout=_TIMEOUT)
        finally:
            consumer.close()
        return {Partition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}
