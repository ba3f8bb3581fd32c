"""A deployment at one moment, as a value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.event_log.summary import line_of, row_of
from tidegate.ops.status.recent import SavedTable
from tidegate.ops.waiting import HeldTable, PendingVacuum, QuarantinedDirectories


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
        return f"{self.dead_letters} open dead letters" if self.dead_letters else ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The deployment. Lists are oldest first; outcomes count since `since`."""

    at: datetime
    since: datetime
    services: Sequence[ServiceStatus]
    waiting: int
    oldest_waiting: PendingVacuum | None
    running: Sequence[LoggedEvent]
    saved: Sequence[SavedTable]
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
            "savepoints": [table.as_json() for table in self.saved],
            "alarms": [row_of(alarm) for alarm in self.alarms],
            "refused": self.refused,
            "failed": self.failed,
            "unknown_dead_letters": self.unknown_dead_letters,
            "awaiting": [row_of(logged) for logged in self.awaiting],
            "held": [hold.as_json() for hold in self.held],
            "quarantined": [cleaning.as_json() for cleaning in self.quarantined],
        }

    def alarm_lines(self) -> list[str]:
        """The alarms, one line each."""
        return [line_of(alarm) for alarm in self.alarms]

    def awaiting_lines(self) -> list[str]:
        """The restores that wait for an approval, one line each."""
        return [line_of(logged) for logged in self.awaiting]

    def running_lines(self) -> list[str]:
        """The running requests, one line each."""
        return [line_of(logged) for logged in self.running]
