"""A deployment's status at one moment, read from Kafka: services, waiting vacuums, outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from tidegate.coordinator.holds import hashed
from tidegate.errors.commands import command_line
from tidegate.events import (
    CleaningProgressed,
    Event,
    Outcome,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreFailed,
    RestoreProgressed,
    RestoreStarted,
    SavepointCreated,
    SavepointRemoved,
    SavepointsChecked,
    TaskEnd,
    TaskEnded,
    TaskOverdue,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.base import Verdict
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import EventLog, LoggedEvent
from tidegate.ops.groups import Groups, lags_of_service
from tidegate.ops.summary import asked_by, counted, row_of
from tidegate.ops.waiting import (
    HeldTable,
    OldestVacuums,
    PendingVacuum,
    QuarantinedDirectories,
    approved,
    gate_stores,
    holds_and_quarantines,
)
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import NAMES
from tidegate.service.settings import Settings


@dataclass(slots=True)
class Recent:
    """Takes outcomes, oldest first. Memory grows with the tables and the running requests."""

    last_by_service: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    running: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """The newest outcome of started requests without a final outcome, by the request's id."""
    savepoints_made: int = 0
    savepoints_removed: int = 0
    alarms: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """Unresolved alarms, by the vacuum's id or the table."""
    awaiting: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """Restores that wait for a second person's approval, by the request's id."""
    approved: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Tables and hashed ids of the requests among them whose approval the coordinator has."""
    unfinished: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By table, the last outcome of a restore that began and did not complete."""
    failed_half_way: set[str] = field(default_factory=set[str])
    """Those of these tables whose restore is not under way: it failed, or is a dead letter."""
    unowned: dict[str, int] = field(default_factory=dict[str, int])
    """By table, how many savepoints of policies no rule owns, as of its last check."""
    refused: int = 0
    failed: int = 0
    day_ago: datetime | None = None
    of_today: int = 0
    """The refused and failed requests since `day_ago`."""

    def take(self, logged: LoggedEvent) -> None:
        """Take the next outcome."""
        event = logged.event
        if not isinstance(event, Outcome) or event.caused_by is None:
            return
        if not isinstance(event, TaskEnded):  # it follows what was done
            self.last_by_service[event.source] = logged
        self._take_alarm(event, logged)
        verdict = event.verdict
        self._take_awaiting(event.caused_by, verdict, logged)
        self.refused += verdict is Verdict.REFUSED
        self.failed += verdict is Verdict.FAILED
        if verdict in {Verdict.REFUSED, Verdict.FAILED}:
            self.of_today += self.day_ago is None or logged.at >= self.day_ago
        if verdict is not Verdict.UNDER_WAY:
            self.running.pop(event.caused_by, None)
        elif isinstance(event, RestoreStarted | RestoreProgressed | CleaningProgressed):
            self.running[event.caused_by] = logged
        self._take_unfinished(event, logged)
        if isinstance(event, SavepointsChecked):
            self.unowned.pop(event.table, None)
            if event.unowned:
                self.unowned[event.table] = len(event.unowned)
        self.savepoints_made += isinstance(event, SavepointCreated) and not event.already_there
        self.savepoints_removed += isinstance(event, SavepointRemoved)

    def _take_unfinished(self, event: Outcome, logged: LoggedEvent) -> None:
        match event:
            case RestoreStarted():
                self.unfinished[event.table] = logged
                self.failed_half_way.discard(event.table)
            case RestoreFailed():
                self.unfinished[event.table] = logged
                self.failed_half_way.add(event.table)
            case RestoreCompleted():
                self.unfinished.pop(event.table, None)
                self.failed_half_way.discard(event.table)
            case TaskEnded(end=TaskEnd.DEAD_LETTERED) if found := self.unfinished.get(event.table):
                # a table has one task at a time: this was the restore's
                self.running.pop(getattr(found.event, "caused_by", ""), None)
                self.failed_half_way.add(event.table)
            case _:
                pass

    def _take_awaiting(self, request: str, verdict: Verdict, logged: LoggedEvent) -> None:
        if verdict is Verdict.AWAITING:
            self.awaiting.setdefault(request, logged)
        else:
            self.awaiting.pop(request, None)

    def awaiting_at(self, now: datetime) -> list[LoggedEvent]:
        """Restores that still wait for an approval and have not expired, oldest first."""
        return [
            logged
            for request, logged in self.awaiting.items()
            if (event := logged.event) is not None
            and ((until := getattr(event, "expires_at", None)) is None or now <= until)
            and (event.table, hashed(request)) not in self.approved
        ]

    def _take_alarm(self, event: Outcome, logged: LoggedEvent) -> None:
        match event:
            case VacuumOverdue() | TaskOverdue():
                self.alarms[event.caused_by or ""] = logged
            case VacuumOverdueResolved() | TaskEnded():
                self.alarms.pop(event.caused_by or "", None)
            case UnknownTableReleased():
                self.alarms[event.table] = logged
            case UnknownTableResolved():
                self.alarms.pop(event.table, None)
            case _:
                pass


_ALARMS: Final = 10


@dataclass(frozen=True, slots=True)
class _ServiceStatus:
    """One service.

    `lag` is Kafka's: the records from the group's committed offsets to the topics' ends. A group
    that has not committed yet starts at the first record.
    """

    name: str
    members: tuple[str, ...]
    lag: int
    last_outcome: LoggedEvent | None
    dead_letters: int

    @property
    def problem(self) -> str:
        """The problem that a person should solve; empty if there is none."""
        if not self.members:
            return "it is not running"
        return counted(self.dead_letters, "open dead letter") if self.dead_letters else ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The deployment. Lists are oldest first; outcomes count since `since`."""

    at: datetime
    since: datetime
    services: Sequence[_ServiceStatus]
    waiting: int
    oldest_waiting: PendingVacuum | None
    recent: Recent
    unknown_dead_letters: int
    """Open dead letters that were not written by Tidegate's services."""
    held: Sequence[HeldTable] = ()
    """The tables whose cleaning is on hold."""
    quarantined: Sequence[QuarantinedDirectories] = ()
    """The directories in quarantine."""

    def as_json(self) -> dict[str, Any]:
        """All fields, for scripts."""
        recent = self.recent
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "since": self.since.isoformat(timespec="seconds"),
            "services": [
                {
                    "service": service.name,
                    "members": list(service.members),
                    "lag": service.lag,
                    "dead_letters": service.dead_letters,
                    "last_outcome": row_of(service.last_outcome) if service.last_outcome else None,
                    "problem": service.problem or None,
                }
                for service in self.services
            ],
            "waiting": self.waiting,
            "oldest_waiting": self.oldest_waiting,
            "running": list(map(row_of, by_time(recent.running))),
            "savepoints_made": recent.savepoints_made,
            "savepoints_removed": recent.savepoints_removed,
            "alarms": list(map(row_of, by_time(recent.alarms))),
            "refused": recent.refused,
            "failed": recent.failed,
            "of_today": recent.of_today,
            "needs": self.needs(),
            "unknown_dead_letters": self.unknown_dead_letters,
            "awaiting": list(map(row_of, recent.awaiting_at(self.at))),
            "held": self.held,
            "quarantined": self.quarantined,
        }

    def needs(self) -> list[str]:
        """What needs a person, the most urgent first: one line each, with its command."""
        alarms, today = by_time(self.recent.alarms), self.recent.of_today
        found = [
            f"{service.name} is not running: {command_line('run', service.name)}"
            for service in self.services
            if not service.members
        ]
        found += [
            f"the restore of {event.table} to {event.savepoint} failed half way, and the table"
            f" takes no writes: {command_line('explain', event.table)}"
            for logged in by_time(self.recent.unfinished)
            if isinstance(event := logged.event, RestoreStarted | RestoreFailed)
            and event.table in self.recent.failed_half_way
        ]
        found += [_approval(logged.event) for logged in self.recent.awaiting_at(self.at)]
        found += [_alarm(alarm.event) for alarm in alarms[-_ALARMS:]]
        if (older := len(alarms) - _ALARMS) > 0:
            found.append(f"{older} older alarms: {command_line('status', json=True)}")
        found += [
            f"{counted(service.dead_letters, 'open dead letter')} of {service.name}:"
            f" {command_line('dead-letters list', service=service.name)}"
            for service in self.services
            if service.dead_letters
        ]
        if self.unknown_dead_letters:
            unknown = counted(self.unknown_dead_letters, "open dead letter")
            found.append(f"{unknown} of no known service: {command_line('dead-letters list')}")
        found += [
            f"no rule owns {counted(count, 'savepoint')} of {table}, so they stay:"
            f" {command_line('savepoints list', table)}"
            for table, count in sorted(self.recent.unowned.items())
        ]
        if today:
            listed = command_line("outcomes", failed=True, since="1d")
            found.append(
                f"{counted(today, 'request')} of the last 24 hours failed or refused: {listed}"
            )
        return found


def by_time(found: Mapping[str, LoggedEvent]) -> list[LoggedEvent]:
    """Logged events, oldest first by the broker's time."""
    return sorted(found.values(), key=lambda logged: logged.at)


def _approval(event: Event | None) -> str:
    if not isinstance(event, RestoreAwaitingApproval):
        return str(event)
    approve = command_line(
        "publish approval",
        request=event.caused_by,
        plan_id=event.plan_id,
        table=event.table,
        location=event.location,
        reason="checked the plan",
    )
    by = f", requested by {asked_by(event)}" if event.requested_by else ""
    until = f", by {event.expires_at:%Y-%m-%dT%H:%M:%SZ}" if event.expires_at else ""
    return (
        f"awaits approval{until}: the restore of {event.table} to {event.savepoint}{by}: {approve}"
    )


def _alarm(event: Event | None) -> str:
    if isinstance(event, VacuumOverdue):
        return f"overdue vacuum of {event.table}: {command_line('waiting', table=event.table)}"
    if isinstance(event, TaskOverdue):
        return f"overdue task of {event.table}: {command_line('explain', event.table)}"
    if event is None:
        return ""
    return f"releases of the unknown table {event.table}: {command_line('explain', event.table)}"


_RETRIES: Final = RetryPolicy(attempts=5, first=0.1, longest=1.0)


def read_snapshot(settings: Settings, since: datetime, now: datetime) -> Snapshot:
    """Read a deployment's status from Kafka; no service is contacted.

    Args:
        settings: The deployment.
        since: Outcomes count from this time on.
        now: The time of the snapshot.

    Raises:
        ConfigError: the topics do not exist.
        TransientError: no broker answers.
    """
    metadata = KafkaMetadata.for_people(settings.connection())
    metadata.require_connection()
    recent = Recent(day_ago=now - timedelta(days=1))
    for logged in EventLog.of(settings).read(since=since):
        if logged is not None:
            recent.take(logged)
    with DeadLetterBox(settings) as box:
        dead_letters = Counter(listed.service for listed in box.list(DeadLetterFilter()))
    oldest, held = OldestVacuums(1), list[HeldTable | QuarantinedDirectories]()
    for store in gate_stores(settings):
        recent.approved |= approved(store)
        oldest.take(store)
        held += holds_and_quarantines(store)
    services = [
        _service(settings, metadata, name, recent, dead_letters.pop(name, 0)) for name in NAMES
    ]
    return Snapshot(
        at=now,
        since=since,
        services=services,
        waiting=oldest.count,
        oldest_waiting=next(iter(oldest.vacuums), None),
        recent=recent,
        unknown_dead_letters=sum(dead_letters.values()),
        held=sorted(
            (hold for hold in held if isinstance(hold, HeldTable)), key=attrgetter("since")
        ),
        quarantined=sorted(
            (row for row in held if isinstance(row, QuarantinedDirectories)),
            key=attrgetter("until"),
        ),
    )


def _service(
    settings: Settings, metadata: KafkaMetadata, name: str, recent: Recent, dead_letters: int
) -> _ServiceStatus:
    prefix = settings.topics.prefix
    members = Groups.of(settings.connection()).members(f"{prefix}.{name}")
    lags = _RETRIES.call(lambda: lags_of_service(metadata, prefix, name))
    return _ServiceStatus(
        name,
        tuple(members),
        sum(lag.records for lag in lags.values()),
        recent.last_by_service.get(name),
        dead_letters,
    )
