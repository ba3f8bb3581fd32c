"""A deployment at one moment, as a value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.event_log.summary import line_of, row_of
from tidegate.ops.status.recent import SavedTable
from tidegate.ops.waiting import HeldTable, KeptCleaning, LackingVacuum


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service.

    `lag` is Kafka's: the records from the group's committed offsets to the topics' ends. Where a
    group has committed nothing yet, it begins at the first record.
    """

    name: str
    members: tuple[str, ...]
    lag: int
    last_outcome: LoggedEvent | None
    dead_letters: int

    @property
    def problem(self) -> str:
        """What a person should look at; empty if nothing."""
        if not self.members:
            return "it does not run"
        return f"{self.dead_letters} open dead letters" if self.dead_letters else ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The deployment. Lists are oldest first; outcomes count since `since`."""

    at: datetime
    since: datetime
    services: Sequence[ServiceStatus]
    waiting: int
    oldest_waiting: LackingVacuum | None
    running: Sequence[LoggedEvent]
    saved: Sequence[SavedTable]
    alarms: Sequence[LoggedEvent]
    """What was said to wait too long since `since`, and still does."""
    refused: int
    failed: int
    unknown_dead_letters: int
    """Open dead letters that none of the services wrote."""
    held: Sequence[HeldTable] = ()
    """The tables that somebody holds."""
    awaiting: Sequence[LoggedEvent] = ()
    """Restores that wait for the approval of a second person."""
    kept: Sequence[KeptCleaning] = ()
    """What is in quarantine."""

    def as_json(self) -> dict[str, Any]:
        """Everything, for scripts."""
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
            "running": [row_of(each) for each in self.running],
            "savepoints": [each.as_json() for each in self.saved],
            "alarms": [row_of(alarm) for alarm in self.alarms],
            "refused": self.refused,
            "failed": self.failed,
            "unknown_dead_letters": self.unknown_dead_letters,
            "awaiting": [row_of(each) for each in self.awaiting],
            "held": [each.as_json() for each in self.held],
            "quarantined": [each.as_json() for each in self.kept],
        }

    def alarm_lines(self) -> list[str]:
        """What waits too long, a line each."""
        return [line_of(alarm) for alarm in self.alarms]

    def awaiting_lines(self) -> list[str]:
        """What waits for an approval, a line each."""
        return [line_of(each) for each in self.awaiting]

    def running_lines(self) -> list[str]:
        """What is under way, a line each."""
        return [line_of(each) for each in self.running]
