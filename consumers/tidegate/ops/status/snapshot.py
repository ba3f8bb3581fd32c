"""A deployment at one moment, as a value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tidegate.errors.commands import command_line
from tidegate.events import Event, RestoreAwaitingApproval, VacuumOverdue
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.event_log.summary import asked_by, counted, row_of
from tidegate.ops.waiting import HeldTable, PendingVacuum, QuarantinedDirectories

_ALARMS: Final = 10


@dataclass(frozen=True, slots=True)
class ServiceStatus:
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
    services: Sequence[ServiceStatus]
    waiting: int
    oldest_waiting: PendingVacuum | None
    running: Sequence[LoggedEvent]
    alarms: Sequence[LoggedEvent]
    """Unresolved alarms since `since`."""
    refused: int
    failed: int
    unknown_dead_letters: int
    """Open dead letters that were not written by Tidegate's services."""
    held: Sequence[HeldTable] = ()
    """The tables whose cleaning is on hold."""
    awaiting: Sequence[LoggedEvent] = ()
    """Restores that wait for the approval of a second person."""
    of_today: int = 0
    """The requests that were refused or failed in the last 24 hours."""
    savepoints_made: int = 0
    savepoints_removed: int = 0
    quarantined: Sequence[QuarantinedDirectories] = ()
    """The directories in quarantine."""

    def as_json(self) -> dict[str, Any]:
        """All fields, for scripts."""
        oldest = self.oldest_waiting
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
            "oldest_waiting": oldest.as_json() if oldest else None,
            "running": [row_of(logged) for logged in self.running],
            "savepoints_made": self.savepoints_made,
            "savepoints_removed": self.savepoints_removed,
            "alarms": [row_of(alarm) for alarm in self.alarms],
            "refused": self.refused,
            "failed": self.failed,
            "of_today": self.of_today,
            "needs": self.needs(),
            "unknown_dead_letters": self.unknown_dead_letters,
            "awaiting": [row_of(logged) for logged in self.awaiting],
            "held": [hold.as_json() for hold in self.held],
            "quarantined": [cleaning.as_json() for cleaning in self.quarantined],
        }

    def needs(self) -> list[str]:
        """What needs a person, the most urgent first: one line each, with its command."""
        return [
            *(_approval(logged.event) for logged in self.awaiting),
            *(_alarm(alarm.event) for alarm in self.alarms[-_ALARMS:]),
            *(
                f"{len(self.alarms) - _ALARMS} older alarms: {command_line('status', json=True)}"
                for _ in self.alarms[_ALARMS : _ALARMS + 1]
            ),
            *(
                f"{counted(service.dead_letters, 'open dead letter')} of {service.name}:"
                f" {command_line('dead-letters list', service=service.name)}"
                for service in self.services
                if service.dead_letters
            ),
            *(
                f"{counted(self.unknown_dead_letters, 'open dead letter')} of no known service:"
                f" {command_line('dead-letters list')}"
                for _ in range(min(1, self.unknown_dead_letters))
            ),
            *(
                f"{counted(self.of_today, 'request')} of the last 24 hours failed or refused:"
                f" {command_line('outcomes', failed=True, since='1d')}"
                for _ in range(min(1, self.of_today))
            ),
            *(
                f"{service.name} is not running: {command_line('run', service.name)}"
                for service in self.services
                if not service.members
            ),
        ]


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
    if event is None:
        return ""
    return f"releases of the unknown table {event.table}: {command_line('explain', event.table)}"
