"""Selected events, published again as they were: the same id, key, value and headers.

One header is added, `tidegate-replayed-from: topic/partition/offset`. For a decider
such an event is a duplicate at a new offset: it is recognised by its id, its instant or its lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Event, RestoreRequested
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record

REPLAYED_FROM: Final = "tidegate-replayed-from"
_ID: Final = "ce_id"
REMEMBERED: Final = 200_000
"""Ids of the events that were found last, by which a repeat is left out: up to 40 MB."""


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
        """Whether a record may be selected, before it is decoded: key and headers don't exclude it.

        So of a long topic only the table's own events are decoded.
        """
        if self.table is not None and record.key not in (None, self.table.encode()):
            return False
        if not self.event_ids:
            return True
        try:
            event_id = dict(record.headers).get(_ID)
        except FormatError:
            return True
        return event_id is None or event_id.decode(errors="replace") in self.event_ids


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
        kept = tuple(header for header in self.record.headers if header[0] != REPLAYED_FROM)
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
    """What would be published again, each id once: the plan, and the dry run.

    It holds no more records than are to be listed, however many there are.
    """

    spans: Mapping[Partition, range]
    """The offsets that were looked at; what was appended later is not part of the plan."""
    selection: Selection
    events: int
    """How many events are selected."""
    restores: int
    """How many of them are restore requests."""
    unreadable: int
    """How many records can't be decoded that may have been selected, by place, key and headers."""
    listed: tuple[SelectedEvent, ...]
    """The first of the events."""
    listed_unreadable: tuple[Unreadable, ...]
    """The first of those records."""


def select_events(
    records: Iterable[Record], selection: Selection, wire: Wire
) -> Iterator[SelectedEvent | Unreadable]:
    """Find the selected events as the records come: the first of each id.

    Of the ids that were seen last, digests are kept. Far more than REMEMBERED events later, the
    same one is found again: a repeat is recognised by whoever consumes it.
    """
    seen = _LastSeen()
    for record in records:
        if not selection.covers_place(record) or not selection.may_cover(record):
            continue
        try:
            event = wire.deserialize(record.key, record.value, record.headers)
        except FormatError as error:
            yield Unreadable(record, record.unreadable or str(error))
            continue
        if selection.covers_event(event) and seen.is_new(event.event_id):
            yield SelectedEvent(record, event)


class _LastSeen:
    """The ids that came last: at least REMEMBERED, and at most twice as many."""

    def __init__(self) -> None:
        self._new, self._old = set[bytes](), set[bytes]()

    def is_new(self, event_id: str) -> bool:
        digest = blake2b(event_id.encode(), digest_size=16).digest()
        if digest in self._new:
            return False
        was_there = digest in self._old
        self._new.add(digest)
        if len(self._new) >= REMEMBERED:
            self._old, self._new = self._new, set()
        return not was_there


def plan_of(
    found: Iterable[SelectedEvent | Unreadable],
    spans: Mapping[Partition, range],
    selection: Selection,
    limit: int,
) -> EventReplay:
    """Count what was found, and keep up to `limit` of each kind to be listed."""
    events = restores = unreadable = 0
    listed: list[SelectedEvent] = []
    unlisted: list[Unreadable] = []
    for each in found:
        if isinstance(each, Unreadable):
            unreadable += 1
            if len(unlisted) < limit:
                unlisted.append(each)
            continue
        events += 1
        restores += asks_for_restore(each.event)
        if len(listed) < limit:
            listed.append(each)
    return EventReplay(
        spans, selection, events, restores, unreadable, tuple(listed), tuple(unlisted)
    )


def narrowed(
    spans: Mapping[Partition, range],
    selection: Selection,
    offsets_at: Callable[[datetime], Mapping[Partition, int]],
) -> dict[Partition, range]:
    """The offsets that have to be read for a selection.

    Args:
        spans: What the partitions hold.
        selection: What is wanted.
        offsets_at: Gives the first offset of each partition from a time on.
    """
    starts = offsets_at(selection.from_time) if selection.from_time else {}
    stops = offsets_at(selection.to_time) if selection.to_time else {}
    found: dict[Partition, range] = {}
    for part, span in spans.items():
        start = max(span.start, selection.from_offset, starts.get(part, 0))
        stop = min(span.stop, stops.get(part, span.stop))
        if selection.to_offset is not None:
            stop = min(stop, selection.to_offset)
        found[part] = range(start, max(start, stop))
    return found


def asks_for_restore(event: Event) -> bool:
    """Whether carrying this out could change a table."""
    return isinstance(event, RestoreRequested) and not event.plan_only


def _origin(record: Record) -> str:
    where = record.partition
    return f"{where.topic}/{where.number}/{record.offset}"
