"""Selected events, published again as they were: the same id, key, value and headers.

One header is added, `tidegate-replayed-from: topic/partition/offset`. For a decider
such an event is a duplicate at a new offset: it is recognised by its id, its instant or its lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Event, RestoreRequested
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record

REPLAYED_FROM: Final = "tidegate-replayed-from"
_ID: Final = "ce_id"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events of a topic; every given condition must hold."""

    table: str | None = None
    event_ids: frozenset[str] = frozenset()
    partition: int | None = None
    from_offset: int = 0
    to_offset: int | None = None
    """Exclusive."""
    from_time: datetime | None = None
    to_time: datetime | None = None
    """Times are the broker's; `to_time` is exclusive."""

    def covers_place(self, record: Record) -> bool:
        """Whether a record is in the selected range of offsets and times."""
        seconds = record.timestamp_ms / 1000
        return (
            self.partition in (None, record.partition.number)
            and self.from_offset <= record.offset
            and (self.to_offset is None or record.offset < self.to_offset)
            and (self.from_time is None or seconds >= self.from_time.timestamp())
            and (self.to_time is None or seconds < self.to_time.timestamp())
        )

    def covers_event(self, event: Event) -> bool:
        """Whether an event is selected."""
        wanted = not self.event_ids or event.event_id in self.event_ids
        return wanted and self.table in (None, event.table)

    def may_cover(self, record: Record) -> bool:
        """Whether an undecodable record may be selected: its key and headers do not exclude it."""
        event_id = dict(record.headers).get(_ID)
        named = self.table is None or record.key in (None, self.table.encode())
        wanted = {each.encode() for each in self.event_ids}
        return named and (not wanted or event_id is None or event_id in wanted)


@dataclass(frozen=True, slots=True)
class SelectedEvent:
    """An event to publish again, and its record."""

    record: Record
    event: Event

    @property
    def origin(self) -> str:
        """Its place, as topic/partition/offset."""
        return _origin(self.record)

    def message(self) -> Message:
        """The message to publish: on the same partition, with its origin in a header."""
        kept = tuple(each for each in self.record.headers if each[0] != REPLAYED_FROM)
        headers = (*kept, (REPLAYED_FROM, self.origin.encode()))
        where = self.record.partition
        return Message(where.topic, self.record.key, self.record.value, headers, where.number)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that can't be decoded: it is reported, and not published again."""

    record: Record
    reason: str

    @property
    def origin(self) -> str:
        """Its place, as topic/partition/offset."""
        return _origin(self.record)


@dataclass(frozen=True, slots=True)
class EventReplay:
    """The events to publish again, each id once: the plan, and the dry run."""

    events: tuple[SelectedEvent, ...]
    unreadable: tuple[Unreadable, ...]
    """Those that may have been selected, by their place, key and headers."""

    @property
    def restores(self) -> int:
        """How many of them are restore requests."""
        return sum(asks_for_restore(each.event) for each in self.events)


def select_events(records: Iterable[Record], selection: Selection, wire: Wire) -> EventReplay:
    """Find the selected events, the first of each id, in the broker's order."""
    found: dict[str, SelectedEvent] = {}
    unreadable: list[Unreadable] = []
    for record in records:
        if not selection.covers_place(record):
            continue
        try:
            event = wire.deserialize(record.key, record.value, record.headers)
        except FormatError as error:
            if selection.may_cover(record):
                unreadable.append(Unreadable(record, str(error)))
            continue
        if selection.covers_event(event):
            found.setdefault(event.event_id, SelectedEvent(record, event))
    ordered = sorted(found.values(), key=_order)
    return EventReplay(tuple(ordered), tuple(unreadable))


def asks_for_restore(event: Event) -> bool:
    """Whether carrying this out could change a table."""
    return isinstance(event, RestoreRequested) and not event.plan_only


def _order(found: SelectedEvent) -> tuple[int, Partition, int]:
    # a batch can share one timestamp: offsets keep a table's events in order
    return found.record.timestamp_ms, found.record.partition, found.record.offset


def _origin(record: Record) -> str:
    where = record.partition
    return f"{where.topic}/{where.number}/{record.offset}"
