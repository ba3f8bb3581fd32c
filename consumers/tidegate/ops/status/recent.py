"""What the outcomes of the last days say, in one pass: who did what last, what runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tidegate.events import (
    CleaningProgressed,
    Outcome,
    RestoreProgressed,
    RestoreStarted,
    SavepointCreated,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.verdict import Verdict, verdict_of
from tidegate.ops.event_log import LoggedEvent


@dataclass(frozen=True, slots=True)
class SavedTable:
    """The savepoints that were written of a table in the time that was looked at."""

    table: str
    written: int
    newest: str
    at: datetime
    requested_by: str | None


@dataclass(slots=True)
class Recent:
    """Take every outcome in turn, oldest first; memory grows with tables and requests under way."""

    last_by_service: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    running: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By the id of the request, the newest outcome of what was begun and has no final one."""
    saved: dict[str, SavedTable] = field(default_factory=dict[str, SavedTable])
    alarms: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """What was said to wait too long and is not resolved, by the vacuum's id or the table."""
    refused: int = 0
    failed: int = 0

    def take(self, logged: LoggedEvent) -> None:
        """Take the next outcome."""
        event = logged.event
        if not isinstance(event, Outcome) or event.caused_by is None:
            return
        self.last_by_service[event.said_by] = logged
        self._take_alarm(event, logged)
        verdict = verdict_of(event)
        self.refused += verdict is Verdict.REFUSED
        self.failed += verdict is Verdict.FAILED
        if verdict is not Verdict.UNDER_WAY:
            self.running.pop(event.caused_by, None)
        elif isinstance(event, RestoreStarted | RestoreProgressed | CleaningProgressed):
            self.running[event.caused_by] = logged
        if isinstance(event, SavepointCreated) and not event.already_there:
            before = self.saved.get(event.table)
            self.saved[event.table] = SavedTable(
                event.table,
                1 + (before.written if before else 0),
                event.instant,
                logged.at,
                event.requested_by,
            )

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
