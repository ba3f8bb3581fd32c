"""An event of a topic, and the conditions by which events are selected. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

from tidegate.events import Event, TaskEnded
from tidegate.events.outcomes import DirectoriesOutcome
from tidegate.events.parts import PartsJoiner
from tidegate.events.verdict import Verdict
from tidegate.runtime.bus import Record


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A record with its event, or the reason why it can't be decoded."""

    record: Record
    event: Event | None
    problem: str = ""

    @property
    def at(self) -> datetime:
        """When the broker appended it: the only clock that all events share."""
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)

    @property
    def place(self) -> str:
        """Its location, as topic/partition/offset."""
        where = self.record.partition
        return f"{where.topic}/{where.number}/{self.record.offset}"


_FAILED: Final = {Verdict.FAILED, Verdict.REFUSED}
_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions on an event; all that are set must hold."""

    tables: tuple[str, ...] = ()
    """Identities or shell patterns of tables; any of them. Empty: all tables."""
    kinds: frozenset[str] = frozenset()
    """Names of events; empty: all kinds."""
    caused_by: str | None = None
    """The id of the cause, or its first characters."""
    event_id: str | None = None
    """The event's own id, or its first characters."""
    failed: bool = False
    """Only outcomes of requests that failed or were refused."""
    is_brief: bool = False
    """Without the ends of tasks that only follow what the task did."""

    @property
    def exact_tables(self) -> frozenset[str] | None:
        """The tables, if all are named exactly and not by a pattern; None: any table may match."""
        if not self.tables or any(_PATTERN & set(table) for table in self.tables):
            return None
        return frozenset(self.tables)

    def may_match(self, key: bytes | None, kind: type[Event] | None) -> bool:
        """Whether a record is worth decoding, by its key (the table) and its schema (the kind).

        A record of an unknown kind matches unless kinds are selected: it is shown as unreadable.
        """
        if self.kinds and (kind is None or kind.__name__ not in self.kinds):
            return False
        return not self.tables or self._is_of(_text(key))

    def matches(self, event: Event) -> bool:
        """Whether an event is selected, given that `may_match` was true."""
        if self.event_id is not None and not event.event_id.startswith(self.event_id):
            return False
        if self.failed and getattr(event, "verdict", None) not in _FAILED:
            return False
        if self.is_brief and isinstance(event, TaskEnded) and not event.message:
            return False
        return self.caused_by is None or (event.caused_by or "").startswith(self.caused_by)

    def may_have_ids(self, value: bytes | None) -> bool:
        """Whether a value contains the selected ids; otherwise it is not worth decoding."""
        ids = (id_ for id_ in (self.caused_by, self.event_id) if id_ is not None)
        return all(id_.encode() in (value or b"") for id_ in ids)

    @property
    def names_an_id(self) -> bool:
        """Whether an id or a cause is selected."""
        return self.caused_by is not None or self.event_id is not None

    def _is_of(self, table: str) -> bool:
        exact = self.exact_tables
        if exact is not None:
            return table in exact
        return any(fnmatchcase(table, pattern) for pattern in self.tables)


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")


class JoinedLog:
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
