"""Publish selected events again, with the same id, key, value and headers.

One header is added, `tidegate-replayed-from: topic/partition/offset`. For the coordinator the event
is a duplicate at a new offset: it is recognised by its id, its instant or its lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from tidegate.errors import ConfigError, FormatError
from tidegate.events import Event, RestoreRequested
from tidegate.events.topics import TOPICS
from tidegate.events.wire import Wire, carried_by
from tidegate.ops.event_log import LoggedEvent, since_ms
from tidegate.ops.summary import counted
from tidegate.publisher import Message
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

REPLAYED_FROM: Final = "tidegate-replayed-from"
_ID: Final = "ce_id"
_BATCH: Final = 500
LISTED: Final = 100
"""The default number of events that a plan lists."""
_LISTED: Final = 5
"""How many undecodable records are shown to people."""
REMEMBERED: Final = 200_000
"""The number of last ids by which repeats are recognised: up to 40 MB."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on the events of a topic; all that are set must hold."""

    table: str | None = None
    event_ids: frozenset[str] = frozenset()
    partition: int | None = None
    from_offset: int = 0
    to_offset: int | None = None
    """Exclusive."""
    from_time: datetime | None = None
    """By the broker's clock."""

    def offsets(self, available: Mapping[Partition, range]) -> dict[Partition, range]:
        """The selected offsets among these, which begin at the selected time.

        Raises:
            ConfigError: there is no such partition.
        """
        found = within(available, self.partition)
        for part, span in found.items():
            start = max(span.start, self.from_offset)
            stop = span.stop if self.to_offset is None else min(span.stop, self.to_offset)
            found[part] = range(start, max(start, stop))
        return found

    def covers_event(self, event: Event) -> bool:
        """Whether an event is selected."""
        wanted = not self.event_ids or event.event_id in self.event_ids
        return wanted and self.table in (None, event.table)

    def may_cover(self, record: Record) -> bool:
        """Whether key and headers allow that a record is selected, before it is decoded.

        So only the selected table's events of a long topic are decoded.
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


def message_of(selected: LoggedEvent) -> Message:
    """The message to publish again: on the same partition, with its origin in a header."""
    record, where = selected.record, selected.record.partition
    others = tuple(header for header in record.headers if header[0] != REPLAYED_FROM)
    headers = (*others, (REPLAYED_FROM, selected.place.encode()))
    return Message(where.topic, record.key, record.value, headers, where.number)


@dataclass(frozen=True, slots=True)
class _EventReplay:
    """The plan of a replay: the events to publish again, each id once.

    It contains only the records to list, even if more are selected.
    """

    spans: Mapping[Partition, range]
    """The offsets that were read; records appended later are not part of the plan."""
    selection: Selection
    events: int
    """The number of selected events."""
    restores: int
    """The number of restore requests among them."""
    unreadable: int
    """The number of records that can't be decoded, but whose location, key and headers match."""
    listed: tuple[LoggedEvent, ...]
    """The first selected events."""
    listed_unreadable: tuple[LoggedEvent, ...]
    """The first undecodable records."""

    @property
    def row(self) -> dict[str, Any]:
        """The plan for scripts."""
        changes = [
            {
                "event": type(event).__name__,
                "table": event.table,
                "event_id": event.event_id,
                "from": found.place,
            }
            for found in self.listed
            if (event := found.event)
        ]
        unreadable = [
            {"from": found.place, "key": found.row["table"] or None, "reason": found.problem}
            for found in self.listed_unreadable
        ]
        return {
            "restores": self.restores,
            "events": self.events,
            "more": self.events > len(self.listed),
            "changes": changes,
            "unreadable_records": self.unreadable,
            "unreadable": unreadable,
        }

    def sentences(self, *, executed: bool) -> Iterator[str]:
        """The plan for people, below the table of its changes."""
        if self.events > len(self.listed):
            yield f"only the first {len(self.listed)} are listed; use --limit for more"
        for found in self.listed_unreadable[:_LISTED]:
            yield f"{found.place} can't be decoded: {found.problem}"
        if self.unreadable > _LISTED:
            yield f"... and {self.unreadable - _LISTED} more; --json lists up to --limit of them"
        if self.unreadable:
            records = counted(self.unreadable, "record")
            yield f"{records} can't be decoded and won't be published again"
        if self.events:
            events = f"{counted(self.events, 'event')} would be published again"
            yield from plan_sentences(events, self.restores, executed=executed)


def plan_sentences(would: str, restores: int, *, executed: bool) -> Iterator[str]:
    """What a plan would do, or does, and how it is carried out."""
    if restores:
        needed = "" if executed else ": --execute needs --with-restores"
        yield f"{counted(restores, 'restore request')} included{needed}"
    yield would.replace("would be", "will be") if executed else f"{would}; add --execute to do it"


def select_events(
    records: Iterable[Record], selection: Selection, wire: Wire
) -> Iterator[LoggedEvent]:
    """Find the selected events as the records come, and leave out repeated ids.

    A record that can't be decoded is one without an event: it is not published again.

    Digests of the last ids are remembered. A repeat after more than REMEMBERED other events is
    found again, which is safe: consumers recognise repeats.
    """
    seen = OrderedDict[bytes, None]()
    for record in records:
        if not selection.may_cover(record):
            continue
        try:
            event = wire.deserialize(record.key, record.value, record.headers)
        except FormatError as error:
            yield LoggedEvent(record, None, record.unreadable or str(error))
            continue
        digest = blake2b(event.event_id.encode(), digest_size=16).digest()
        if selection.covers_event(event) and digest not in seen:
            yield LoggedEvent(record, event)
            seen[digest] = None
            if len(seen) > REMEMBERED:
                seen.popitem(last=False)


def plan_of(
    found: Iterable[LoggedEvent],
    spans: Mapping[Partition, range],
    selection: Selection,
    limit: int,
    wire: Wire,
) -> _EventReplay:
    """Count events and undecodable records, and list up to `limit` of both."""
    events = restores = unreadable = 0
    listed: list[LoggedEvent] = []
    unlisted: list[LoggedEvent] = []
    for selected in found:
        if selected.event is None:
            unreadable += 1
            if len(unlisted) < limit:
                unlisted.append(selected)
            continue
        events += 1
        restores += asks_for_restore(selected.event, wire)
        if len(listed) < limit:
            listed.append(selected)
    return _EventReplay(
        spans, selection, events, restores, unreadable, tuple(listed), tuple(unlisted)
    )


def within(spans: Mapping[Partition, range], number: int | None) -> dict[Partition, range]:
    """Those of one partition number; None: all.

    Raises:
        ConfigError: there are none.
    """
    found = {part: span for part, span in spans.items() if number in (None, part.number)}
    if not found:
        topics = ", ".join(sorted({part.topic for part in spans}))
        raise ConfigError(f"{topics} has no partition {number}")
    return found


def plan_events(
    bus: KafkaBus, settings: Settings, topic: str, selection: Selection, limit: int = LISTED
) -> _EventReplay:
    """Find the events to publish again; the plan lists up to `limit` of them.

    Only the selected offsets are read, record by record.

    Raises:
        ConfigError: `topic` is not a topic of events, or has no such partition.
    """
    known = {topic.suffix: topic for topic in TOPICS if topic.events}
    prefix = settings.topics.prefix
    suffix = topic.removeprefix(f"{prefix}.")
    if suffix not in known:
        raise ConfigError(f"unknown topic {topic}: choose one of {', '.join(known)}")
    available = bus.spans(known[suffix].name(prefix), since_ms(selection.from_time))
    spans, wire = selection.offsets(available), wire_for(settings.registry)
    return plan_of(select_events(bus.read(spans), selection, wire), spans, selection, limit, wire)


def publish_again(bus: KafkaBus, settings: Settings, plan: _EventReplay) -> None:
    """Publish the events of a plan again, in order within each partition.

    They are read a second time instead of being held in memory.
    """
    found = select_events(bus.read(plan.spans), plan.selection, wire_for(settings.registry))
    messages = (message_of(selected) for selected in found if selected.event is not None)
    while batch := list(islice(messages, _BATCH)):
        bus.send(batch)


def asks_for_restore(event: Event, wire: Wire) -> bool:
    """Whether the event, or the command of this task, is a restore that changes a table."""
    command = carried_by(event, wire)
    return isinstance(command, RestoreRequested) and not command.plan_only
