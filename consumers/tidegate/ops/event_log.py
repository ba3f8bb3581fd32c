"""Read the events of a deployment's topics without a consumer group, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from typing import Any, Final, Self

from tidegate.errors import ConfigError, FormatError
from tidegate.errors.commands import command_line
from tidegate.events import Event, Request, RestoreRequested, TaskEnded, TaskIssued
from tidegate.events.base import Verdict
from tidegate.events.cleanings import ANYWHERE, DirectoriesOutcome, PartsJoiner
from tidegate.events.signature import SIGNATURE_HEADER, Proof
from tidegate.events.topics import (
    CARRIED,
    COMMITS,
    LOCKS,
    OUTCOME_TOPIC,
    REQUEST_TOPIC,
    TASK_TOPIC,
    VACUUMS,
    Topic,
    partition_of,
)
from tidegate.events.wire import command_of
from tidegate.registry import wire_for
from tidegate.runtime.authorization import Authorization, Unauthorized
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import Config, follow_from, read_in_order
from tidegate.runtime.retry import ELECTION_RETRIES
from tidegate.service.settings import Settings

UNVERIFIED: Final = "signature not verified"
PATTERN: Final = frozenset("*?[")
_COLUMNS: Final = ("message", "requested_by", "why", "signed_by", "duration_ms")
_FAILED: Final = {Verdict.FAILED, Verdict.REFUSED}
_PARTS: Final = 100
"""The maximum number of parts of an outcome; so many more are read that none is cut off."""
_LOCATIONS: Final = 5
"""How many locations an error names."""
TOPICS: Final = (COMMITS, VACUUMS, LOCKS, REQUEST_TOPIC, TASK_TOPIC, OUTCOME_TOPIC)
"""The topics whose events name tables."""
_CARRIED: Final = {kind.__name__ for kind in CARRIED}
"""Shown in place of the tasks that carry them."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A record with its event, or the reason why it can't be decoded."""

    record: Record
    event: Event | None
    problem: str = ""
    proof: Proof | None = None
    """Of a request as it was published; None: of other events."""

    @property
    def at(self) -> datetime:
        """When the broker appended it: the only clock that all events share."""
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)

    @property
    def place(self) -> str:
        """Its location, as topic/partition/offset."""
        where = self.record.partition
        return f"{where.topic}/{where.number}/{self.record.offset}"

    @property
    def row(self) -> dict[str, Any]:
        """The event for scripts: the fields to filter by, then the complete event.

        Fields that its kind does not have are None. `at` is the broker's time.
        """
        event = self.event
        return {
            "at": self.at,
            "table": event.table if event else _text(self.record.key),
            "kind": type(event).__name__ if event else None,
            "event_id": getattr(event, "event_id", None),
            "caused_by": getattr(event, "caused_by", None),
            "reason": reason_of(event),
            **{name: getattr(event, name, None) for name in _COLUMNS},
            **({"signed_by": self.proof.signed_by} if self.proof else {}),
            "place": self.place,
            "problem": self.problem or None,
            "event": event,
        }


def reason_of(event: Event | None) -> str | None:
    """The code of a refusal or a flag; None for other events."""
    reason = getattr(event, "reason", None) or getattr(event, "flag", None)
    return None if reason is None else str(reason)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions on an event; all that are set must hold."""

    tables: tuple[str, ...] = ()
    """Identities or shell patterns of tables; any of them. Empty: all tables."""
    kinds: frozenset[str] = frozenset()
    """Names of events; empty: all kinds."""
    caused_by: str | None = None
    """The id of the cause, or its first characters."""
    event_ids: tuple[str, ...] = ()
    """The event's own id, or its first characters; any of them. Empty: all."""
    failed: bool = False
    """Only outcomes of requests that failed or were refused."""
    is_brief: bool = False
    """Without the ends of tasks that only follow what the task did."""

    @property
    def exact_tables(self) -> frozenset[str] | None:
        """The tables, if all are named exactly and not by a pattern; None: any table may match."""
        if not self.tables or any(PATTERN & set(table) for table in self.tables):
            return None
        return frozenset(self.tables)

    def may_match(
        self, key: bytes | None, kind: type[Event] | None, *, is_lost: bool = False
    ) -> bool:
        """Whether a record is worth decoding, by its key (the table) and its schema (the kind).

        A record of an unknown kind matches unless kinds are selected: it is shown as unreadable.
        One that the client can't read (`is_lost`) may be of any table.
        """
        if self.kinds and (kind is None or kind.__name__ not in self.kinds):
            return False
        return not self.tables or (is_lost and key is None) or self._is_of(_text(key))

    def matches(self, event: Event) -> bool:
        """Whether an event is selected, given that `may_match` was true."""
        if self.event_ids and not event.event_id.startswith(self.event_ids):
            return False
        if self.failed and getattr(event, "verdict", None) not in _FAILED:
            return False
        if self.is_brief and isinstance(event, TaskEnded) and not event.message:
            return False
        return self.caused_by is None or (event.caused_by or "").startswith(self.caused_by)

    def may_have_ids(self, value: bytes | None) -> bool:
        """Whether a value contains the selected ids; otherwise it is not worth decoding."""
        wanted = (self.event_ids, (self.caused_by,) if self.caused_by else ())
        return all(any(id_.encode() in (value or b"") for id_ in ids) for ids in wanted if ids)

    @property
    def names_an_id(self) -> bool:
        """Whether an id or a cause is selected."""
        return self.caused_by is not None or bool(self.event_ids)

    def _is_of(self, table: str) -> bool:
        exact = self.exact_tables
        if exact is not None:
            return table in exact
        return any(fnmatchcase(table, pattern) for pattern in self.tables)


ALL: Final = EventFilter()
_BRIEF: Final = EventFilter(is_brief=True)


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")


class _JoinedLog:
    """Joins parts of outcomes: takes events oldest first, and yields complete ones.

    A part whose predecessors are missing is yielded unchanged. Parts whose last one is missing are
    yielded when the outcome starts again, or by `rest`.
    """

    def __init__(self) -> None:
        """Start without parts."""
        self._joiner = PartsJoiner()
        self._waiting: dict[tuple[str, str | None], list[LoggedEvent]] = {}

    def add(self, logged: LoggedEvent) -> Iterator[LoggedEvent]:
        """Take the next event; yield events that are complete or can't become complete."""
        event = logged.event
        if not isinstance(event, DirectoriesOutcome) or event.part is None:
            yield logged
            return
        key = type(event).__name__, event.caused_by
        if event.part == 1:
            yield from self._waiting.pop(key, ())
        elif not self._joiner.follows(event):
            yield logged
            return
        joined = self._joiner.add(event)
        if joined is None:
            self._waiting.setdefault(key, []).append(logged)
        else:
            self._waiting.pop(key, None)
            yield replace(logged, event=joined)

    def rest(self) -> Iterator[LoggedEvent]:
        """The parts whose last one is missing."""
        for parts in self._waiting.values():
            yield from parts
        self._waiting.clear()


def without_bytes(logged: LoggedEvent) -> LoggedEvent:
    """An event without the bytes of its record, of which many fit into memory."""
    return replace(logged, record=logged.record._replace(value=None, headers=()))


def since_ms(since: datetime | None) -> int:
    """The time from which on to read, in ms since the epoch; 0: from the beginning."""
    return 0 if since is None else max(1, int(since.timestamp() * 1000))


class EventLog:
    """The events of a deployment's topics, read-only; no group's offsets change."""

    def __init__(self, settings: Settings, connection: Config, metadata: KafkaMetadata) -> None:
        """Take the deployment, librdkafka's settings, and what asks its cluster."""
        self._settings, self._config, self._metadata = settings, connection, metadata
        self._prefix, self._wire = settings.topics.prefix, wire_for(settings.registry)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The log of a deployment; its requests fail within seconds if no broker answers."""
        connection = settings.connection()
        return cls(settings, connection, KafkaMetadata.for_people(connection))

    def read(
        self,
        topic: Topic = OUTCOME_TOPIC,
        wanted: EventFilter = ALL,
        *,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[LoggedEvent]:
        """The events of a topic that match, oldest first by the broker's timestamp.

        They are read lazily: memory does not grow with the topic. An outcome in parts is one event,
        with the location and time of its last part.

        Args:
            topic: One of the declared topics.
            wanted: The conditions. For exact table names only those tables' partitions are read.
            since: Start with events that the broker appended at this time or later; None: all.
            limit: Only this many of the newest events that are on the topic now.

        Raises:
            ConfigError: the topic does not exist.
            TransientError: no broker answers.
        """
        found = self._events(topic, wanted, since, limit, follow=False)
        return (logged for logged in found if logged is not None)

    def follow(
        self,
        topic: Topic = OUTCOME_TOPIC,
        wanted: EventFilter = ALL,
        *,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[LoggedEvent | None]:
        """The same, and then new events without end; None now and then, so that a caller can stop.

        Arguments and errors are those of `read`.
        """
        return self._events(topic, wanted, since, limit, follow=True)

    def _events(
        self,
        topic: Topic,
        wanted: EventFilter,
        since: datetime | None,
        limit: int | None,
        *,
        follow: bool,
    ) -> Iterator[LoggedEvent | None]:
        spans = self.spans(topic, wanted, since)
        if limit is not None and wanted in {ALL, _BRIEF}:
            # the newest are among the last of each partition; an outcome precedes a task's end
            count = 2 * limit + _PARTS
            spans = {p: range(max(s.start, s.stop - count), s.stop) for p, s in spans.items()}
        joined = _JoinedLog()
        found = self._wanted(read_in_order(self._config, spans), wanted, joined)
        if not follow:
            found = chain(found, joined.rest())
        yield from found if limit is None else deque(map(without_bytes, found), limit)
        if follow:
            ends = {part: span.stop for part, span in spans.items()}
            for record in follow_from(self._config, ends):
                if record is None:
                    yield None
                else:
                    yield from self._wanted([record], wanted, joined)

    def tables(self, topic: Topic, table: str | None = None) -> Iterator[str]:
        """The tables that a topic's keys name; with a table, only those of its partition."""
        wanted = ALL if table is None else EventFilter((table,))
        for record in read_in_order(self._config, self.spans(topic, wanted)):
            yield (record.key or b"").decode(errors="replace")

    def check_named(self, table: str, otherwise: str) -> None:
        """Check that an event on any topic names a table; `otherwise`: what to do else.

        Raises:
            ConfigError: no event does; the message has the nearest names.
        """
        if not any(name == table for topic in TOPICS for name in self.tables(topic, table)):
            raise self._unknown(table, otherwise)

    def request_id(self, table: str, shortened: str) -> str:
        """The id of the table's request that begins so.

        Raises:
            ConfigError: none does, and the message has the nearest ids; or several do.
        """
        found = self._requests(table, shortened)
        if not found:
            ids = {id_[: len(shortened)]: id_ for id_ in self._requests(table)}
            otherwise = "--new sends it unchecked"
            self.check_named(table, otherwise)
            near = " or ".join(ids[start] for start in get_close_matches(shortened, ids))
            meant = f"; did you mean {near}?" if near else ""
            raise ConfigError(
                f"no request of {table} has the id {shortened}{meant} ({otherwise}); what was"
                f" requested: {command_line('explain', table)}"
            )
        if len(found) > 1 and shortened not in found:
            raise ConfigError(
                f"several requests begin with {shortened}: {', '.join(sorted(found))}"
            )
        return shortened if shortened in found else found.pop()

    def _requests(self, table: str, start: str | None = None) -> set[str]:
        """The ids of a table's requests, or of those whose ids begin so."""
        wanted = EventFilter((table,), event_ids=(start,) if start else ())
        return {
            logged.event.event_id
            for topic in (REQUEST_TOPIC, TASK_TOPIC)
            for logged in self.read(topic, wanted)
            if isinstance(logged.event, Request)
        }

    def location_of(self, table: str) -> str:
        """The location of a table, from the events that name it; see `locations_of`.

        Raises:
            ConfigError: no event names the table, or events name it at several locations.
        """
        found = self.locations_of(table)
        if not found:
            raise self._unknown(table, "for a new table, give its location")
        if len(found) > 1:
            named = ", ".join(found[:_LOCATIONS])
            raise ConfigError(f"events name {table} at several locations: {named}: give one")
        return found[0]

    def locations_of(self, table: str) -> list[str]:
        """The locations at which events name a table, sorted.

        Writers' commits and vacuums decide, else the other events: the end of a lock counts at any
        location, and a request may name a wrong one, and so may its refusal.
        """
        for topics in ((COMMITS, VACUUMS), (LOCKS, REQUEST_TOPIC, OUTCOME_TOPIC)):
            found = {
                logged.event.location.rstrip("/")
                for topic in topics
                for logged in self.read(topic, EventFilter((table,)))
                if logged.event is not None
            } - {ANYWHERE}
            if found:
                return sorted(found)
        return []

    def _unknown(self, table: str, otherwise: str) -> ConfigError:
        names = {name for topic in TOPICS for name in self.tables(topic)}
        near = " or ".join(get_close_matches(table, names))
        meant = f"; did you mean {near}?" if near else ""
        return ConfigError(f"no event names the table {table}{meant} ({otherwise})")

    def _wanted(
        self, records: Iterable[Record], wanted: EventFilter, joined: _JoinedLog
    ) -> Iterator[LoggedEvent]:
        for record in records:
            if (logged := self.logged(record, wanted)) is not None:
                yield from joined.add(logged)

    def logged(self, record: Record, wanted: EventFilter = ALL) -> LoggedEvent | None:
        """The event of a record, or None if it does not match."""
        key, value, headers = record.key, record.value, record.headers
        try:
            kind = self._wire.kind(value, headers)
            if kind is TaskIssued:
                return self._of_task(record, wanted)
            is_lost = bool(record.unreadable)
            is_possible = wanted.may_match(key, kind, is_lost=is_lost)
            if not is_possible or not wanted.may_have_ids(value):
                return None
            event = self._wire.deserialize(key, value, headers)
        except FormatError as error:
            if wanted.names_an_id:
                return None
            return LoggedEvent(record, None, record.unreadable or str(error))
        if not wanted.matches(event):
            return None
        proof = self._proof(event, record) if isinstance(event, Request) else None
        return LoggedEvent(record, event, proof=proof)

    def _of_task(self, record: Record, wanted: EventFilter) -> LoggedEvent | None:
        """A task, or in its place the command that only tasks carry."""
        if not wanted.may_have_ids(record.value):
            return None
        event = self._wire.deserialize(record.key, record.value, record.headers)
        if isinstance(event, TaskIssued) and event.kind in _CARRIED:
            event = command_of(event, self._wire)
        elif isinstance(event, TaskIssued) and event.kind == RestoreRequested.__name__:
            restore = command_of(event, self._wire)
            # of a condemned commit: no person published it
            event = restore if restore.source == event.source else event
        is_wanted = wanted.may_match(record.key, type(event)) and wanted.matches(event)
        return LoggedEvent(record, event) if is_wanted else None

    @cached_property
    def _authorization(self) -> Authorization | None:
        """None: these settings can't verify signatures."""
        from tidegate.service.assembly import authorization  # noqa: PLC0415 - heavy

        if not self._settings.security.keys:
            return None
        try:
            return authorization(self._settings, self._metadata.cluster_id())
        except ConfigError:
            return None

    def _proof(self, event: Request, record: Record) -> Proof:
        """Whose key signed a request, also if it may not sign this, by the keys in the settings."""
        if not any(name == SIGNATURE_HEADER for name, _ in record.headers):
            return Proof()
        if self._authorization is None:
            return Proof(otherwise="signature not checked")
        try:
            key = self._authorization.check(event, record)
        except Unauthorized as refused:
            return Proof(refused.signed_by, UNVERIFIED)
        return Proof(key.name if key else None)

    def spans(
        self, topic: Topic, wanted: EventFilter = ALL, since: datetime | None = None
    ) -> Mapping[Partition, range]:
        """The offsets to read, by partition, up to the current end."""
        name = topic.name(self._prefix)
        self._metadata.require_connection()
        count = ELECTION_RETRIES.call(lambda: self._metadata.partitions(name))
        tables = wanted.exact_tables
        numbers = range(count) if tables is None else {partition_of(t, count) for t in tables}
        parts = [Partition(name, number) for number in sorted(numbers)]
        return ELECTION_RETRIES.call(lambda: self._metadata.spans_of(parts, since_ms(since)))
