"""Publish selected events again, with the same id, key, value and headers.

One header is added, `tidegate-replayed-from: topic/partition/offset`. For the coordinator the event
is a duplicate at a new offset: it is recognised by its id, its instant or its lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from tidegate.errors import ConfigError, FormatError
from tidegate.events import Event, RestoreRequested
from tidegate.events.topics import TOPICS
from tidegate.events.wire import Wire, carried_by
from tidegate.ops.event_log import EventFilter, LoggedEvent
from tidegate.ops.summary import counted
from tidegate.publisher import Message
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import Settings

REPLAYED_FROM: Final = "tidegate-replayed-from"
_BATCH: Final = 500
LAST_OFFSET: Final = 2**63 - 1
_LISTED: Final = 5
"""How many undecodable records are shown to people."""
REMEMBERED: Final = 200_000
"""The number of last ids by which repeats are recognised: up to 40 MB."""


def message_of(selected: LoggedEvent) -> Message:
    """The message to publish again: on the same partition, with its origin in a header."""
    record, where = selected.record, selected.record.partition
    others = tuple(header for header in record.headers if header[0] != REPLAYED_FROM)
    headers = (*others, (REPLAYED_FROM, selected.place.encode()))
    return Message(where.topic, record.key, record.value, headers, where.number)


@dataclass(slots=True)
class _EventReplay:
    """The plan of a replay: the events to publish again, each id once.

    It contains only the records to list, even if more are selected.
    """

    spans: Mapping[Partition, range]
    """The offsets that were read; records appended later are not part of the plan."""
    wanted: EventFilter
    events: int = 0
    """The number of selected events."""
    restores: int = 0
    """The number of restore requests among them."""
    unreadable: int = 0
    """The number of records that can't be decoded; with ids they are not looked for."""
    listed: list[LoggedEvent] = field(default_factory=list[LoggedEvent])
    """The first selected events."""
    listed_unreadable: list[LoggedEvent] = field(default_factory=list[LoggedEvent])
    """The first undecodable records."""

    def take(self, found: Iterable[LoggedEvent], limit: int, wire: Wire) -> None:
        """Count events and undecodable records, and list up to `limit` of both."""
        for selected in found:
            if selected.event is None:
                self.unreadable += 1
                if len(self.listed_unreadable) < limit:
                    self.listed_unreadable.append(selected)
                continue
            self.events += 1
            self.restores += asks_for_restore(selected.event, wire)
            if len(self.listed) < limit:
                self.listed.append(selected)

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
    records: Iterable[Record], wanted: EventFilter, wire: Wire
) -> Iterator[LoggedEvent]:
    """Find the selected events as the records come, and leave out repeated ids.

    A record that can't be decoded is one without an event: it is not published again.

    Digests of the last ids are remembered. A repeat after more than REMEMBERED other events is
    found again, which is safe: consumers recognise repeats.
    """
    seen = OrderedDict[bytes, None]()
    for record in records:
        key, value, headers = record.key, record.value, record.headers
        is_lost, kind = bool(record.unreadable), wire.kind(value, headers)
        is_possible = wanted.may_match(key, kind, is_lost=is_lost)
        if not is_possible or not wanted.may_have_ids(value):
            continue
        try:
            event = wire.deserialize(key, value, headers)
        except FormatError as error:
            if not wanted.names_an_id:
                yield LoggedEvent(record, None, record.unreadable or str(error))
            continue
        digest = blake2b(event.event_id.encode(), digest_size=16).digest()
        if wanted.matches(event) and digest not in seen:
            yield LoggedEvent(record, event)
            seen[digest] = None
            if len(seen) > REMEMBERED:
                seen.popitem(last=False)


def topic_of_events(name: str, prefix: str) -> str:
    """The full name of a topic of events, with or without the prefix.

    Raises:
        ConfigError: there is no such topic.
    """
    known = {topic.suffix: topic for topic in TOPICS if topic.events}
    if (topic := known.get(name.removeprefix(f"{prefix}."))) is None:
        raise ConfigError(f"unknown topic {name}: choose one of {', '.join(known)}")
    return topic.name(prefix)


def within(
    spans: Mapping[Partition, range], number: int | None, offsets: range = range(LAST_OFFSET)
) -> dict[Partition, range]:
    """Those of one partition number (None: all), without other offsets than these.

    Raises:
        ConfigError: there are none.
    """
    found = {
        part: span[max(0, offsets.start - span.start) : max(0, offsets.stop - span.start)]
        for part, span in spans.items()
        if number in (None, part.number)
    }
    if not found:
        topics = ", ".join(sorted({part.topic for part in spans}))
        raise ConfigError(f"{topics} has no partition {number}")
    return found


def plan_events(
    bus: KafkaBus,
    settings: Settings,
    spans: Mapping[Partition, range],
    wanted: EventFilter,
    limit: int,
) -> _EventReplay:
    """Find the events to publish again; the plan lists up to `limit` of them.

    Only these offsets are read, record by record.
    """
    plan, wire = _EventReplay(spans, wanted), wire_for(settings.registry)
    plan.take(select_events(bus.read(spans), wanted, wire), limit, wire)
    return plan


def publish_again(bus: KafkaBus, settings: Settings, plan: _EventReplay) -> None:
    """Publish the events of a plan again, in order within each partition.

    They are read a second time instead of being held in memory.
    """
    found = select_events(bus.read(plan.spans), plan.wanted, wire_for(settings.registry))
    messages = (message_of(selected) for selected in found if selected.event is not None)
    while batch := list(islice(messages, _BATCH)):
        bus.send(batch)


def asks_for_restore(event: Event, wire: Wire) -> bool:
    """Whether the event, or the command of this task, is a restore that changes a table."""
    command = carried_by(event, wire)
    return isinstance(command, RestoreRequested) and not command.plan_only
