"""A deployment's status at one moment, read from Kafka: services, waiting vacuums, outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any, Final

from tidegate.bridges.position import READS, STALE, group_of, last_poll
from tidegate.errors import FormatError, StopService
from tidegate.errors.commands import command_line
from tidegate.events import (
    AttemptFailed,
    CleaningDeferred,
    CommitFlagged,
    Outcome,
    RestoreAwaitingApproval,
    RestoreFailed,
    RestoreStarted,
    TaskOverdue,
    VacuumFlagged,
    VacuumOverdue,
)
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import EventFilter, EventLog, LoggedEvent
from tidegate.ops.groups import Groups, lags_of_service
from tidegate.ops.recent import Recent, by_time
from tidegate.ops.summary import approval_command, asked_by, content_of, counted, flagged
from tidegate.ops.waiting import OldestVacuums, approved, gate_stores, held_tables, quarantined
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import ELECTION_RETRIES
from tidegate.service.catalogue import NAMES
from tidegate.service.settings import Settings

_MOST: Final = 10
"""Lines of a kind; with a store, thousands of tables may fail."""
_LONG: Final = timedelta(minutes=5)
"""A task that has failed for so long needs a person: most faults of a store have ended by then."""


def needs(
    recent: Recent, services: Sequence[Mapping[str, Any]], unknown_dead_letters: int, now: datetime
) -> list[str]:
    """What needs a person, the most urgent first: one line each, with its command."""
    found = [
        f"{service['service']} is not running: {command_line('run', service['service'])}"
        for service in services
        if not service["members"]
    ]
    found += [
        f"{service['service']}: {service['problem']}: {command_line('doctor')}"
        for service in services
        if service["members"] and service["service"] in READS and service["problem"]
    ]
    found += [
        f"the restore of {event.table} to {event.savepoint} failed half way, and the table"
        f" takes no writes: {command_line('explain', event.table)}"
        for logged in by_time(recent.unfinished)
        if isinstance(event := logged.event, RestoreStarted | RestoreFailed)
        and event.table in recent.failed_half_way
    ]
    failing = [
        f"{event.table}: {content_of(event)}: {command_line('explain', event.table)}"
        for logged in by_time(recent.failing)
        if isinstance(event := logged.event, AttemptFailed) and now - event.since >= _LONG
    ]
    found += newest(failing, "tasks that are tried again")
    found += [
        _approval(event)
        for logged in recent.awaiting_at(now)
        if isinstance(event := logged.event, RestoreAwaitingApproval)
    ]
    alarms = by_time(recent.alarms)
    found += newest(
        [_alarm(event) for it in alarms if isinstance(event := it.event, Outcome)], "alarms"
    )
    found += [
        f"{counted(count, 'open dead letter')} of {service['service']}:"
        f" {command_line('dead-letters list', service=service['service'])}"
        for service in services
        if (count := service["dead_letters"])
    ]
    if unknown_dead_letters:
        unknown = counted(unknown_dead_letters, "open dead letter")
        found.append(f"{unknown} of no known service: {command_line('dead-letters list')}")
    found += [
        f"no rule owns {counted(count, 'savepoint')} of {table}, so they stay:"
        f" {command_line('savepoints list', table)}"
        for table, count in sorted(recent.unowned.items())
    ]
    listed = command_line("outcomes", failed=True, since="1d")
    for of_policy, thing in ((False, "request"), (True, "savepoint check")):
        if count := recent.of_today(of_policy=of_policy):
            today = f"{counted(count, f'failed or refused {thing}')} of the last 24 hours"
            found.append(f"{today} without a success on the same table since: {listed}")
    return found


def newest(lines: Sequence[str], what: str) -> Sequence[str]:
    """The last of these lines, and how many others there are."""
    if (older := len(lines) - _MOST) <= 0:
        return lines
    return [*lines[-_MOST:], f"{older} older {what}: {command_line('status', json=True)}"]


def awaiting_approval(settings: Settings, table: str) -> list[LoggedEvent]:
    """The restores of a table that wait for an approval, also one that was approved just now."""
    recent = Recent()
    for logged in EventLog.of(settings).read(wanted=EventFilter((table,))):
        recent.take(logged)
    return recent.awaiting_at(datetime.now(UTC))


def _approval(event: RestoreAwaitingApproval) -> str:
    by = f", requested by {asked_by(event)}" if event.requested_by else ""
    until = f", by {event.expires_at:%Y-%m-%dT%H:%M:%SZ}" if event.expires_at else ""
    restore = f"the restore of {event.table} to {event.savepoint}{by}"
    return f"awaits approval{until}: {restore}: {approval_command(event)}"


def _alarm(event: Outcome) -> str:
    explain = command_line("explain", event.table)
    match event:
        case VacuumOverdue():
            return f"overdue vacuum of {event.table}: {command_line('waiting', table=event.table)}"
        case TaskOverdue():
            return f"overdue task of {event.table}: {explain}"
        case CommitFlagged() | VacuumFlagged():
            return flagged(event)
        case CleaningDeferred():
            return f"the second source contradicts a vacuum of {event.table}: {explain}"
        case _:
            return f"{event.table}: {content_of(event)}: {explain}"


def read_status(settings: Settings, since: datetime, now: datetime) -> dict[str, Any]:
    """Read a deployment's status from Kafka, as `--json` prints it; no service is contacted.

    Lists are oldest first. `lag` is Kafka's: the records from the group's committed offsets to the
    topics' ends; a group that has not committed yet starts at the first record. `waiting` is None
    if not all rows can be read.

    Args:
        settings: The deployment.
        since: Outcomes count from this time on.
        now: The time of the status.

    Raises:
        ConfigError: the topics do not exist.
        TransientError: no broker answers.
    """
    metadata = KafkaMetadata.for_people(settings.connection())
    metadata.require_connection()
    prefix, groups = settings.topics.prefix, Groups(settings.connection())
    names = (*NAMES, *READS)

    def asked(name: str) -> tuple[list[str], int, datetime | None]:
        lags = ELECTION_RETRIES.call(partial(lags_of_service, metadata, prefix, name))
        group, lag = group_of(prefix, name), sum(lag.records for lag in lags.values())
        known = groups.positions(group, lags) if name in READS else {}
        return groups.members(group), lag, last_poll(name, prefix, known)

    with ThreadPoolExecutor(len(names)) as pool:  # each waits for its group's coordinator
        positions = pool.map(asked, names)
        recent = Recent(day_ago=now - timedelta(days=1))
        for logged in EventLog.of(settings).read(since=since):
            recent.take(logged)
    with DeadLetterBox(settings) as box:
        dead_letters = Counter(listed.service for listed in box.list(DeadLetterFilter()))
    oldest, held, moved = OldestVacuums(1), list[dict[str, Any]](), list[dict[str, Any]]()
    unknown_rows = list[str]()
    try:
        for store in gate_stores(settings):
            recent.approved |= approved(store)
            oldest.take(store)
            held += held_tables(store)
            moved += quarantined(store)
    except (StopService, FormatError) as error:
        unknown_rows.append(f"not all waiting vacuums, holds and quarantines are known: {error}")
    services: list[dict[str, Any]] = []
    for name, (members, lag, polled) in zip(names, positions, strict=True):
        if name in READS and not members and not settings.bridge.has(name):
            continue
        count = dead_letters.pop(name, 0)
        problem = counted(count, "open dead letter") if count else None
        if polled is not None and now - polled > STALE:
            problem = f"it has not polled since {polled:%Y-%m-%dT%H:%M:%SZ}"
        services.append(
            {
                "service": name,
                "members": members,
                "lag": lag,
                "dead_letters": count,
                "last_outcome": recent.last_by_service.get(name),
                "last_poll": polled,
                "problem": problem if members else "it is not running",
            }
        )
    unknown = sum(dead_letters.values())
    return {
        "at": now,
        "since": since,
        "services": services,
        "waiting": None if unknown_rows else oldest.count,
        "oldest_waiting": next(iter(oldest.vacuums), None),
        "running": recent.under_way(),
        "savepoints_made": recent.savepoints_made,
        "savepoints_removed": recent.savepoints_removed,
        "alarms": by_time(recent.alarms),
        "refused": recent.refused,
        "failed": recent.failed,
        "of_today": recent.of_today(of_policy=False),
        "needs": [
            *unknown_rows,
            *map(settings.security.suggested, needs(recent, services, unknown, now)),
        ],
        "unknown_dead_letters": unknown,
        "awaiting": recent.awaiting_at(now),
        "held": sorted(held, key=itemgetter("since")),
        "quarantined": sorted(moved, key=itemgetter("until")),
    }
