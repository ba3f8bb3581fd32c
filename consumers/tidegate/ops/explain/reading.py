"""Gather the history of a table or an event: topics, dead letters and the gate's changelog."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime

from tidegate.errors import FormatError, TidegateError
from tidegate.events import VacuumFinished, table_identity
from tidegate.events.topics import VACUUMS
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.dead_letters.dead_letter import without_value
from tidegate.ops.event_log import EventFilter, EventLog, LoggedEvent, NewestEvents
from tidegate.ops.event_log.log import TOPICS
from tidegate.ops.explain.story import HeldIds, Story, ids_of_chain
from tidegate.ops.waiting import OldestVacuums, StoredVacuum, gate_stores
from tidegate.service.settings import Settings


def explain(settings: Settings, subject: str, since: datetime | None, limit: int) -> Story:
    """The history of a table, or of the chain of causes that an event belongs to.

    Args:
        settings: The deployment.
        subject: A table's name, or an event's id or its first characters.
        since: Only events that the broker appended from this time on; None: all.
        limit: Only this many of the newest events.

    Raises:
        TidegateError: there is no such table or event.
        ConfigError: no event names the table, or the topics do not exist.
        TransientError: no broker answers.
    """
    log = EventLog.of(settings)
    table = _table(subject)
    if table is not None:
        story = _of_table(settings, log, table, since, limit)
        if story.events or story.waiting or story.dead_letters:
            return story
    event = _event(log, subject, since)
    if event is None:
        if table is not None:
            log.check_named(table, "tables and events' ids are explained")
        raise TidegateError(f"nothing is known of {subject}: no event has this id or table")
    return _of_event(settings, log, event, since, limit)


def _of_table(
    settings: Settings, log: EventLog, table: str, since: datetime | None, limit: int
) -> Story:
    with closing(_all_of(log, table, since)) as events:
        newest = NewestEvents(limit, events)
    with DeadLetterBox(settings) as box:
        dead_letters = list(box.list(DeadLetterFilter(table=table), include_resolved=True))
    shown = {logged.event.event_id for logged in newest if logged.event}
    also = set[str]()

    def wanted(vacuum: StoredVacuum) -> bool:
        if vacuum.waiting.event_id in shown:
            also.add(vacuum.waiting.event_id)
        return True

    waiting = _waiting(settings, table, OldestVacuums(limit, wanted))
    return Story(table, newest, waiting.vacuums, dead_letters, newest.dropped, waiting.count, also)


def _of_event(
    settings: Settings, log: EventLog, found: LoggedEvent, since: datetime | None, limit: int
) -> Story:
    if found.event is None:
        raise TidegateError(f"the event at {found.place} can't be decoded: {found.problem}")
    event_id, table = found.event.event_id, found.event.table
    with closing(_all_of(log, table, since)) as events:
        chain = ids_of_chain(event_id, (event.event for event in events if event.event))
    related = NewestEvents(limit)
    held = HeldIds.of(
        logged.event
        for logged in _decoded(log.read(VACUUMS, EventFilter((table,)), since=since))
        if isinstance(logged.event, VacuumFinished) and logged.event.event_id in chain
    )
    with closing(_all_of(log, table, since)) as events:
        for logged in events:
            event = logged.event
            if event and (event.event_id in chain or held.has_ended_by(event)):
                related.add(logged)
    with DeadLetterBox(settings) as box:
        wanted = DeadLetterFilter(table=table)
        dead_letters = [
            replace(listed, dead_letter=replace(original, record=without_value(original.record)))
            for batch in box.batches(wanted, include_resolved=True)
            for listed in batch
            if (event := (original := listed.dead_letter).event(box.wire))
            and event.event_id in chain
        ]
    in_chain = OldestVacuums(limit, lambda vacuum: vacuum.waiting.event_id in chain)
    waiting = _waiting(settings, table, in_chain)
    return Story(event_id, related, waiting.vacuums, dead_letters, related.dropped, waiting.count)


def _waiting(settings: Settings, table: str, oldest: OldestVacuums) -> OldestVacuums:
    for store in gate_stores(settings, table):
        oldest.take(store)
    return oldest


def _event(log: EventLog, event_id: str, since: datetime | None) -> LoggedEvent | None:
    """The newest event whose id begins with `event_id`; reads all partitions of all topics."""
    found: LoggedEvent | None = None
    for topic in TOPICS:
        for logged in _decoded(log.read(topic, EventFilter(event_id=event_id), since=since)):
            if found is None or logged.at >= found.at:
                found = logged
    return found


def _all_of(log: EventLog, table: str, since: datetime | None) -> Generator[LoggedEvent]:
    """The events of a table on all topics, by the broker's time."""
    wanted = EventFilter((table,))
    topics = [_decoded(log.read(topic, wanted, since=since)) for topic in TOPICS]
    yield from heapq.merge(*topics, key=lambda topic: topic.record.timestamp_ms)


def _decoded(found: Iterator[LoggedEvent | None]) -> Iterator[LoggedEvent]:
    return (logged for logged in found if logged is not None)


def _table(subject: str) -> str | None:
    try:
        return table_identity(subject)
    except FormatError:
        return None
