"""What the outcomes of the last days say, in one pass: who did what last, what runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tidegate.events import (
    CleaningProgressed,
    Outcome,
    RestoreProgressed,
    RestoreStarted,
    SavepointCreated,
    SavepointRemoved,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.verdict import Verdict, verdict_of
from tidegate.ops.event_log import LoggedEvent


class _Saved(NamedTuple):
    """A savepoint that was written in the time that was looked at."""

    at: datetime
    requested_by: str | None


@dataclass(slots=True)
class SavedTable:
    """What became of a table's savepoints in the time that was looked at, by the outcomes.

    A savepoint that was removed by other tools, or with its table, still counts: what a table has
    is in its own timeline.
    """

    table: str
    at: datetime
    """When the last of these outcomes came."""
    written: int = 0
    removed: int = 0
    """Of these, and of those written before."""
    left: dict[str, _Saved] = field(default_factory=dict[str, _Saved])
    """Those written that were not removed, by instant."""

    @property
    def newest(self) -> str | None:
        """The greatest instant of those that are left."""
        return max(self.left, default=None)

    @property
    def newest_saved(self) -> _Saved | None:
        """When that was written, and who asked for it."""
        return None if self.newest is None else self.left[self.newest]

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        newest = self.newest_saved
        return {
            "table": self.table,
            "written": self.written,
            "removed": self.removed,
            "newest": self.newest,
            "at": newest.at.isoformat(timespec="seconds") if newest else None,
            "requested_by": newest.requested_by if newest else None,
        }


@dataclass(slots=True)
class Recent:
    """Take every outcome in turn, oldest first; memory grows with tables and requests under way."""

    last_by_service: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    running: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By the id of the request, the newest outcome of what was begun and has no final one."""
    saved: dict[str, SavedTable] = field(default_factory=dict[str, SavedTable])
    alarms: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """What was said to wait too long and is not resolved, by the vacuum's id or the table."""
    awaiting: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By the id of the request, what waits for the approval of a second person."""
    refused: int = 0
    failed: int = 0

    def take(self, logged: LoggedEvent) -> None:
        """Take the next outcome."""
        event = logged.event
        if not isinstance(event, Outcome) or event.caused_by is None:
            return
        self.last_by_service[event.source] = logged
        self._take_alarm(event, logged)
        verdict = verdict_of(event)
        self._take_awaiting(event.caused_by, verdict, logged)
        self.refused += verdict is Verdict.REFUSED
        self.failed += verdict is Verdict.FAILED
        if verdict is not Verdict.UNDER_WAY:
            self.running.pop(event.caused_by, None)
        elif isinstance(event, RestoreStarted | RestoreProgressed | CleaningProgressed):
            self.running[event.caused_by] = logged
        if isinstance(event, SavepointCreated) and not event.already_there:
            saved = self._saved_table(logged, event.table)
            saved.written += event.instant not in saved.left
            saved.left[event.instant] = _Saved(logged.at, event.requested_by)
        elif isinstance(event, SavepointRemoved):
            saved = self._saved_table(logged, event.table)
            saved.removed += 1
            saved.left.pop(event.instant, None)

    def _saved_table(self, logged: LoggedEvent, table: str) -> SavedTable:
        found = self.saved.setdefault(table, SavedTable(table, logged.at))
        found.at = logged.at
        return found

    def _take_awaiting(self, request: str, verdict: Verdict, logged: LoggedEvent) -> None:
        if verdict is Verdict.AWAITING:
            self.awaiting.setdefault(request, logged)
        else:
            self.awaiting.pop(request, None)

    def awaiting_at(self, now: datetime) -> list[LoggedEvent]:
        """What still waits for an approval, as far as its time is not over; oldest first."""
        return [
            each
            for each in self.awaiting.values()
            if (until := getattr(each.event, "expires_at", None)) is None or now <= until
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
