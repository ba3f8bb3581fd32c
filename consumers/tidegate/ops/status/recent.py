"""Summarise the recent outcomes in one pass: last outcomes, running requests, alarms. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tidegate.events import (
    CleaningProgressed,
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestoreProgressed,
    RestoreStarted,
    SavepointCreated,
    SavepointRemoved,
    TaskEnded,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.verdict import Verdict
from tidegate.ops.event_log import LoggedEvent


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
    unfinished: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By table, the last outcome of a restore that began and did not complete."""
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
        if isinstance(event, RestoreStarted | RestoreFailed):
            self.unfinished[event.table] = logged
        elif isinstance(event, RestoreCompleted):
            self.unfinished.pop(event.table, None)
        self.savepoints_made += isinstance(event, SavepointCreated) and not event.already_there
        self.savepoints_removed += isinstance(event, SavepointRemoved)

    def _take_awaiting(self, request: str, verdict: Verdict, logged: LoggedEvent) -> None:
        if verdict is Verdict.AWAITING:
            self.awaiting.setdefault(request, logged)
        else:
            self.awaiting.pop(request, None)

    def awaiting_at(self, now: datetime) -> list[LoggedEvent]:
        """Restores that still wait for an approval and have not expired, oldest first."""
        return [
            logged
            for logged in self.awaiting.values()
            if (until := getattr(logged.event, "expires_at", None)) is None or now <= until
        ]

    def _take_alarm(self, event: Outcome, logged: LoggedEvent) -> None:
        match event:
            case VacuumOverdue():
                self.alarms[event.caused_by or ""] = logged
            case VacuumOverdueResolved():
                self.alarms.pop(event.caused_by or "", None)
            case UnknownTableReleased():
                self.alarms[event.table] = logged
            case UnknownTableResolved():
                self.alarms.pop(event.table, None)
            case _:
                pass
