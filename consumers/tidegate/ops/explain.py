"""The history of a table or an event in order, and the next steps."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.errors import FormatError, TidegateError
from tidegate.events import Event, LockReleased, VacuumFinished, table_identity
from tidegate.events.fields import span
from tidegate.events.topics import VACUUMS
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import TOPICS, EventFilter, EventLog, LoggedEvent, without_bytes
from tidegate.ops.groups import Groups
from tidegate.ops.story import Story
from tidegate.ops.waiting import OldestVacuums, gate_stores, held_tables
from tidegate.savepoints.rules import SavepointRule, Tier, TierRule, covering
from tidegate.service.catalogue import NAMES
from tidegate.service.settings import Settings


def described_rule(rules: Sequence[SavepointRule], table: str) -> str:
    """The rule that applies to a table, and what its tiers keep."""
    rule = covering(rules, table)
    if rule is None:
        return "no rule of [[savepoints]] covers this table: savepoints on request only"
    number = rules.index(rule) + 1
    named = f"rule {number} of [[savepoints]] (policy {rule.policy}, tables {rule.tables!r})"
    if not rule.tiers:
        return f"{named}: savepoints on request only"
    parts = [_described(tier) for tier in rule.tiers]
    parts += [f"at least {span(rule.min_gap)} apart"] if rule.min_gap else []
    parts += [f"at most {rule.max_count} in all"] if rule.max_count else []
    return f"{named}: {', '.join(parts)}"


def _described(tier: TierRule) -> str:
    named = f"every {tier.commits} commits" if tier.tier is Tier.EVERY_N else str(tier.tier)
    if tier.operations:
        named += f" {', '.join(tier.operations)}"
    keep = [f"the newest {tier.keep}"] if tier.keep else []
    keep += [f"for {span(tier.lifetime)}"] if tier.lifetime else []
    return f"{named} (retained: {' '.join(keep) or 'forever'})"


def ids_of_chain(event_id: str, events: Iterable[Event]) -> frozenset[str]:
    """The ids of an event, its causes, and all effects of those.

    A vacuum that was published more than once is one vacuum.

    Args:
        event_id: The event.
        events: All events of its table, in any order.
    """
    causes: dict[str, str] = {}
    effects: dict[str, set[str]] = defaultdict(set)
    first = dict[int, str]()
    for event in events:
        cause = event.caused_by
        if isinstance(event, VacuumFinished):
            cause = first.setdefault(WaitingVacuum.of_event(event, 0).id, event.event_id)
        if cause is not None:
            causes[event.event_id] = cause
            effects[cause].add(event.event_id)
    root, seen = event_id, {event_id}
    while (cause := causes.get(root)) is not None and cause not in seen:
        seen.add(cause)
        root = cause
    found, left = set[str](), [root]
    while left:
        current = left.pop()
        if current not in found:
            found.add(current)
            left += effects[current]
    return frozenset(found)


def held_by(vacuums: Iterable[VacuumFinished]) -> Callable[[Event], bool]:
    """Whether an event releases a lock or transaction that one of these vacuums waits for."""
    locks, transactions = set[int](), set[int]()
    for vacuum in vacuums:
        locks.update(lock.lock_id for lock in vacuum.locks)
        transactions.update(vacuum.open_transactions)
        transactions |= {it.transaction_id for it in vacuum.locks if it.transaction_id is not None}

    def is_released_by(event: Event) -> bool:
        return isinstance(event, LockReleased) and (
            event.lock_id in locks or event.transaction_id in transactions
        )

    return is_released_by


def explain(settings: Settings, subject: str, since: datetime | None, limit: int) -> Story:
    """The history of a table, or of the chain of causes that an event belongs to.

    Args:
        settings: The deployment.
        subject: A table's name, or the id of an event or a dead letter, or its first characters.
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
        story = _story(settings, table, since, limit)
        if story.events or story.waiting or story.dead_letters:
            return story
    found = _event(log, subject, since)
    if found is None and (original := _original(settings, subject)) is not None:
        return explain(settings, original, since, limit)
    if found is None:
        if table is not None:
            log.check_named(table, "tables and events' ids are explained")
        raise TidegateError(f"nothing is known of {subject}: no event has this id or table")
    if (event := found.event) is None:
        raise TidegateError(f"the event at {found.place} can't be decoded: {found.problem}")
    with closing(_all_of(log, event.table, since)) as events:
        chain = ids_of_chain(event.event_id, (event.event for event in events if event.event))
    story = _story(settings, event.table, since, limit, chain)
    return replace(story, subject=event.event_id)


def _story(
    settings: Settings,
    table: str,
    since: datetime | None,
    limit: int,
    chain: Collection[str] | None = None,
) -> Story:
    """The story of a table, or only of the events with these ids."""
    with DeadLetterBox(settings) as box:
        found = box.list(DeadLetterFilter(table=table), include_resolved=True)
        if chain is None:
            dead_letters = list(found)
        else:
            dead_letters = [
                dead_letter.without_value()
                for batch in box.batches(found)
                for dead_letter in batch
                if (event := dead_letter.event(box.wire)) and event.event_id in chain
            ]
    ids = {dead_letter.dead_letter_id for dead_letter in dead_letters}
    log, newest, count = EventLog.of(settings), deque[LoggedEvent](maxlen=limit), 0
    published = log.read(VACUUMS, EventFilter((table,)), since=since) if chain else iter(())
    releases = held_by(
        logged.event
        for logged in published
        if isinstance(logged.event, VacuumFinished) and logged.event.event_id in (chain or ())
    )
    with closing(_all_of(log, table, since)) as events:
        for logged in events:
            event = logged.event
            if chain is None or (
                event and (event.event_id in chain or event.caused_by in ids or releases(event))
            ):
                newest.append(without_bytes(logged))
                count += 1
    finished = (it.event for it in newest if isinstance(it.event, VacuumFinished))
    vacuums = [WaitingVacuum.of_event(event, 0) for event in finished]
    shown, also = {vacuum.content: vacuum.event_id for vacuum in vacuums}, set[str]()

    def wanted(vacuum: WaitingVacuum) -> bool:
        if vacuum.content in shown:
            also.add(shown[vacuum.content])
        return chain is None or vacuum.event_id in chain

    oldest, held = OldestVacuums(limit, wanted), list[Mapping[str, Any]]()
    for store in gate_stores(settings, table):
        oldest.take(store)
        held += held_tables(store)
    stopped = list[str]()
    with suppress(TidegateError):  # a person need not have the right to see the groups
        stopped += Groups(settings.connection()).stopped(settings.topics.prefix, NAMES)
    return Story(
        table,
        newest,
        oldest.vacuums,
        dead_letters,
        left_out=count - len(newest),
        waiting_in_all=oldest.count,
        vacuums=vacuums,
        also_waiting=also,
        held=held,
        stopped=stopped,
    )


def _event(log: EventLog, event_id: str, since: datetime | None) -> LoggedEvent | None:
    """The newest event whose id begins with `event_id`; reads all partitions of all topics."""
    wanted = EventFilter(event_ids=(event_id,))
    found = (it for topic in TOPICS for it in log.read(topic, wanted, since=since))
    return max(found, key=lambda logged: logged.at, default=None)


def _original(settings: Settings, dead_letter_id: str) -> str | None:
    """The id of a dead letter's event, or its table if that can't be decoded."""
    with DeadLetterBox(settings) as box:
        found = box.list(DeadLetterFilter(ids=(dead_letter_id,)), include_resolved=True)
        for batch in box.batches(islice(found, 1)):
            event = batch[0].event(box.wire)
            return event.event_id if event else batch[0].table
    return None


def _all_of(log: EventLog, table: str, since: datetime | None) -> Generator[LoggedEvent]:
    """The events of a table on all topics, by the broker's time."""
    wanted = EventFilter((table,))
    topics = [log.read(topic, wanted, since=since) for topic in TOPICS]
    yield from heapq.merge(*topics, key=lambda topic: topic.record.timestamp_ms)


def _table(subject: str) -> str | None:
    try:
        return table_identity(subject)
    except FormatError:
        return None
