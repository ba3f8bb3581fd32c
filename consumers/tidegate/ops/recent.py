"""What the outcomes leave open: running tasks, alarms, approvals, unfinished restores. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.coordinator.rows.records import hashed
from tidegate.events import (
    AttemptFailed,
    CleaningDeferred,
    CleaningProgressed,
    CleaningRefused,
    CommitFlagged,
    DirectoriesCleaned,
    Event,
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestoreProgressed,
    RestoreStarted,
    SavepointCreated,
    SavepointRemoved,
    SavepointsChecked,
    TaskEnd,
    TaskEnded,
    VacuumFlag,
    VacuumFlagged,
    VacuumOverdueResolved,
    derived_id,
)
from tidegate.events.base import Alarm, TableAlarm, TableAlarmEnded, Verdict
from tidegate.events.reasons import Reason
from tidegate.events.topics import Role
from tidegate.ops.event_log import LoggedEvent
from tidegate.service.catalogue import COORDINATOR


@dataclass(slots=True)
class Recent:
    """Takes outcomes, oldest first. Memory grows with the tables and the running requests."""

    last_by_service: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    running: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By table, the newest progress of its running task."""
    failing: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By table, the newest failed attempt at its running task."""
    ended: dict[str, int] = field(default_factory=dict[str, int])
    """By table, the number of the last task that has ended."""
    savepoints_made: int = 0
    savepoints_removed: int = 0
    alarms: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """Unresolved alarms, by the id of what waits; those about a table by their kind and the table;
    flags since `day_ago` by their `_flag_key`."""
    awaiting: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """Restores that wait for a second person's approval, by the request's id."""
    approved: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Tables and hashed ids of the requests among them whose approval the coordinator has."""
    unfinished: dict[str, LoggedEvent] = field(default_factory=dict[str, LoggedEvent])
    """By table, the last outcome of a restore that began and did not complete."""
    failed_half_way: set[str] = field(default_factory=set[str])
    """Those of these tables whose restore is not running: it failed, or is a dead letter."""
    unowned: dict[str, int] = field(default_factory=dict[str, int])
    """By table, how many savepoints of policies no rule owns, as of its last check."""
    refused: int = 0
    failed: int = 0
    day_ago: datetime | None = None
    unsuccessful: dict[tuple[str, str, bool], set[str]] = field(
        default_factory=dict[tuple[str, str, bool], set[str]]
    )
    """By table, service, and whether a policy asked: the requests that were refused or failed since
    `day_ago`, and after the last one that succeeded."""

    def under_way(self) -> list[LoggedEvent]:
        """One event of each running task, oldest first: its failed attempt, else its progress."""
        return by_time(self.running | self.failing)

    def of_today(self, *, of_policy: bool) -> int:
        """How many requests, of people or of a policy, were refused or failed since `day_ago`."""
        return sum(len(ids) for key, ids in self.unsuccessful.items() if key[-1] == of_policy)

    def take(self, logged: LoggedEvent) -> None:
        """Take the next outcome."""
        event = logged.event
        if not isinstance(event, Outcome) or event.caused_by is None:
            return
        if not isinstance(event, TaskEnded):  # it follows what was done
            self.last_by_service[event.source] = logged
        self._take_open(event, event.caused_by, logged)
        self._count(event, event.caused_by, is_new=self._is_of_today(logged))
        self._take_task(event, logged)
        self._take_unfinished(event, logged)
        if isinstance(event, SavepointsChecked):
            self.unowned.pop(event.table, None)
            if event.unowned:
                self.unowned[event.table] = len(event.unowned)
        self.savepoints_made += isinstance(event, SavepointCreated) and not event.already_there
        self.savepoints_removed += isinstance(event, SavepointRemoved)

    def _is_of_today(self, logged: LoggedEvent) -> bool:
        return self.day_ago is None or logged.at >= self.day_ago

    def _count(self, event: Outcome, cause: str, *, is_new: bool) -> None:
        verdict, writer = event.verdict, Role.SAVEPOINT_WRITER
        of_policy = event.source == writer and getattr(event, "requested_by", "") == COORDINATOR
        key = (event.table, event.source, of_policy)
        if verdict in {Verdict.REFUSED, Verdict.FAILED}:
            self.refused += verdict is Verdict.REFUSED and not of_policy
            self.failed += verdict is Verdict.FAILED and not of_policy
            if is_new:
                self.unsuccessful.setdefault(key, set()).add(cause)
        elif verdict is Verdict.DONE and not (
            of_policy and cause in self.unsuccessful.get(key, ())
        ):
            self.unsuccessful.pop(key, None)  # a check that refused one savepoint ends, too

    def _take_task(self, event: Outcome, logged: LoggedEvent) -> None:
        match event:
            case AttemptFailed():  # late, if its task has ended
                if event.number > self.ended.get(event.table, 0):
                    self.failing[event.table] = logged
            case RestoreStarted():
                self.running[event.table] = logged
            case RestoreProgressed() | CleaningProgressed():
                self.running[event.table] = logged
                self.failing.pop(event.table, None)
            case TaskEnded() if event.end is not TaskEnd.NUMBER_TAKEN:  # that is of a copy
                self.failing.pop(event.table, None)
                if event.end is not TaskEnd.REDRIVEN:  # it may still be running
                    self.ended[event.table] = event.number
                # a restore that has begun goes on after a stop: its command is issued again
                is_stop = event.stopped is not None or event.end is TaskEnd.SUPERSEDED
                if not (is_stop and event.table in self.unfinished.keys() - self.failed_half_way):
                    self.running.pop(event.table, None)
            case _:
                pass

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
            case TaskEnded(end=TaskEnd.DEAD_LETTERED) if event.table in self.unfinished:
                # a table has one task at a time: this was the restore's
                self.failed_half_way.add(event.table)
            case _:
                pass

    def awaiting_at(self, now: datetime) -> list[LoggedEvent]:
        """Restores that still wait for an approval and have not expired, oldest first."""
        return [
            logged
            for request, logged in self.awaiting.items()
            if (event := logged.event) is not None
            and ((until := getattr(event, "expires_at", None)) is None or now <= until)
            and (event.table, hashed(request)) not in self.approved
        ]

    def _take_open(self, event: Outcome, cause: str, logged: LoggedEvent) -> None:
        if event.verdict is Verdict.AWAITING:
            self.awaiting.setdefault(cause, logged)
        else:
            self.awaiting.pop(cause, None)
        match event:
            case TableAlarm():
                self.alarms[_table_key(type(event), event)] = logged
            case TableAlarmEnded():
                self.alarms.pop(_table_key(event.ends, event), None)
            case CommitFlagged() | VacuumFlagged():
                if self._is_of_today(logged):
                    self.alarms[_flag_key(event)] = logged
            case Alarm() | CleaningDeferred(reason=Reason.NOT_CONFIRMED):
                self.alarms[cause] = logged
            case VacuumOverdueResolved() | TaskEnded() | DirectoriesCleaned() | CleaningRefused():
                self.alarms.pop(cause, None)
            case _:
                pass


def by_time(*found: Mapping[str, LoggedEvent]) -> list[LoggedEvent]:
    """Logged events, oldest first by the broker's time."""
    return sorted((it for events in found for it in events.values()), key=lambda it: it.at)


def _flag_key(event: CommitFlagged | VacuumFlagged) -> str:
    """What ends a flag: the id of the vacuum's cleaning; else only a later one of its kind does."""
    if event.flag in {VacuumFlag.CONTENT_CHANGED, VacuumFlag.RELEASE_MAY_BE_FORGOTTEN}:
        return derived_id("CleaningReleased", event.caused_by)
    return f"{event.table} {event.flag}"


def _table_key(alarm: type[TableAlarm], event: Event) -> str:
    """What an open alarm about the event's table is known by: one of a kind is open for a table."""
    return f"{event.table} {alarm.__name__}"
