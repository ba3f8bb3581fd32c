"""Tasks: what the workers do, one at a time for a table.

The way of a command: `Tasks.add` issues it as a task, a row TASK with the table's next number.
While one of its table is running, the command is a row QUEUED instead. The TaskEnded of the running
one (`tidegate.coordinator.running_tasks`) drops its row, and `Tasks.issue` issues the next command.
If the task became a dead letter, its command is stored as a row FAILED.

The message of a running task is made from its row, and published again at each assignment, so it
needs no row in the outbox; while it has no outcome also hourly, with an alarm. Repeats are free,
because the worker finds the number on the table.

A running task is stopped by a task with a later number, which runs at the same time. While a person
holds a table no cleaning of it is issued, and a running one is stopped; the hold is confirmed once
none is running. A stopped command is queued again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import Final, NamedTuple

from pydantic import TypeAdapter

from tidegate.coordinator.holds import HOLD, is_held
from tidegate.coordinator.outgoing import Outgoing
from tidegate.coordinator.rows import records
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningReleased,
    Command,
    QuarantineRemovalRequested,
    SavepointsCheckRequested,
    StopRequested,
    TaskIssued,
)
from tidegate.events.fields import from_ms, to_ms
from tidegate.events.wire import Message, original_of

NUMBER: Final = RowType("number", ("last",))
"""The last number of a table: it is never used again."""
TASK: Final = RowType(
    "task", ("lane", "due"), key="number", has_body=True, indexes=("task_due on task (due)",)
)
"""A running task, its body a `Task`. From `due` on it is overdue."""
OVERDUE_AFTER: Final = timedelta(hours=1)
QUEUED: Final = RowType(
    "queued", ("lane",), key="id", has_body=True, indexes=("queued_next on queued (tbl, lane, id)",)
)
"""A command that waits for its turn. The lanes: CLEANINGS wait while the table is held; of CHECKS
one at most is queued."""
ANY, CLEANINGS, CHECKS, STOPS = range(4)
FAILED: Final = RowType("failed", key="number", has_body=True)
"""A `Task` that became a dead letter: it is issued again once that is redriven."""
UNCONFIRMED: Final = RowType("unconfirmed", key="id", has_body=True)
"""Answers to people, which wait until no cleaning of the table is running."""
STOPPING: Final = RowType("stopping", key="id", has_body=True)
"""A command whose task is stopped because people withdrew it: the withdrawals."""
ROW_TYPES: Final = (NUMBER, TASK, QUEUED, FAILED, UNCONFIRMED, STOPPING, HOLD)
_NEXT: Final = (
    "select id, body from queued indexed by queued_next where tbl = ? and lane = ?"
    " order by id limit 1"
)
RUNNING_TASK: Final = f"select number, body from task where tbl = ? and lane <> {STOPS}"  # noqa: S608
_BEFORE_IT: Final = (
    f"select 1 from task where tbl = ? and lane <> {STOPS}"  # noqa: S608
    " union all select 0 from queued where tbl = ? union all select 0 from hold where tbl = ?"
    " limit 1"
)
"""Whether a task is running (1); else whether something else may come before a new command (0)."""
STOP_ROW: Final = f"select number, body from task where tbl = ? and lane = {STOPS}"  # noqa: S608
TASK_ROW: Final = "select body from task where tbl = ? and number = ?"


Original = tuple[Message, datetime]
"""A message, and when the broker has had it. Its headers are not verified."""


class Queued(NamedTuple):
    """A command that waits for its turn, or that a task carries."""

    command: str
    """Its id; the first field, by which `quarantines` finds it."""
    lane: int
    location: str
    kind: str
    original: Original
    """The command's."""
    approval: str | None = None
    """The id of the approval under which it is carried out."""
    grounds: Sequence[Original] = ()
    """The messages, besides the command's, that the task rests on: its approval."""
    partition: str | None = None
    signed_by: str | None = None
    """The verified name of the requester."""
    has_begun: bool = False
    """Whether an earlier task of the command may have changed the table."""

    @classmethod
    def of(
        cls,
        command: Command,
        message: Message,
        appended_at: datetime,
        signed_by: str | None = None,
        *,
        has_begun: bool = False,
    ) -> Queued:
        """A command with its message, and when the broker has had it."""
        return cls(
            command.event_id,
            _lane(command),
            command.location,
            type(command).__name__,
            (message, appended_at),
            partition=getattr(command, "partition", None),
            signed_by=signed_by,
            has_begun=has_begun,
        )

    @classmethod
    def load(cls, body: str) -> Queued:
        """The command that a row's body holds."""
        return _QUEUED.validate_json(body)

    @property
    def body(self) -> str:
        """Its row's body."""
        return _QUEUED.dump_json(self).decode()

    def as_task(self, table: str, number: int, issued: int) -> TaskIssued:
        """The event that lets a worker carry it out, issued at this time of the broker, in ms."""
        command, *grounds = starmap(original_of, (self.original, *self.grounds))
        return TaskIssued(
            table=table,
            location=self.location,
            occurred_at=from_ms(issued),
            source=SOURCE,
            caused_by=self.command,
            number=number,
            command=command,
            grounds=tuple(grounds),
        )


class Task(NamedTuple):
    """A running task, or one that became a dead letter; its table and number are the row's key.

    Its message is not stored, but made again: it has the command a second time, and a record of the
    changelog has no room for a large command twice.
    """

    id: str
    issued: int
    """Milliseconds of the broker's time."""
    stops: int | None
    """For a stop, the number of the task that it stops."""
    queued: Queued
    """The command that it carries."""

    @classmethod
    def load(cls, body: str) -> Task:
        """The task that a row's body holds."""
        return _TASK.validate_json(body)

    @property
    def body(self) -> str:
        """Its row's body."""
        return _TASK.dump_json(self).decode()

    def event(self, table: str, number: int) -> TaskIssued:
        """Its event, to publish again."""
        return self.queued.as_task(table, number, self.issued)


_QUEUED: Final = TypeAdapter(Queued, config=records.BYTES)
_TASK: Final = TypeAdapter(Task, config=records.BYTES)


class Tasks:
    """Issues queued commands as tasks. The caller owns the transaction of the rows."""

    def __init__(self, outgoing: Outgoing) -> None:
        """Take what makes messages."""
        self._outgoing = outgoing

    def add(self, command: Command, rows: Store, at: datetime) -> None:
        """Issue a new command at once if nothing is before it; else queue it."""
        table, queued = command.table, Queued.of(command, *self._outgoing.command(command, at))
        [is_running] = rows.one(_BEFORE_IT, table, table, table) or (None,)
        if is_running is None:
            self._issue(table, queued, rows, at)
            return
        enqueue(table, queued, rows)
        if not is_running:
            self.issue(table, rows, at)

    def issue(self, table: str, rows: Store, at: datetime) -> None:
        """Issue the next task of a table; while one is running, perhaps its stop.

        Before it, the answers to people are published that waited for the end of a cleaning.
        """
        number, task = running(table, rows) or (None, None)
        if task is None or task.queued.lane != CLEANINGS:
            _confirm(table, rows)
        if number is None or task is None:
            queued = _next(table, rows)
        else:
            queued = self._stop(table, number, task, rows, at)
        if queued is not None:
            self._issue(table, queued, rows, at, stops=number)

    def unfinished(self, rows: Store) -> list[Message]:
        """The messages of all running tasks, and of stops."""
        found = rows.all("select tbl, number, body from task order by tbl, number")
        return [
            self._outgoing.task(Task.load(body).event(table, number))
            for table, number, body in found
        ]

    def _issue(
        self, table: str, queued: Queued, rows: Store, at: datetime, *, stops: int | None = None
    ) -> None:
        """Store a new task, with the table's next number, and publish it."""
        number, issued = 1 + last_number(table, rows), to_ms(at)
        event = queued.as_task(table, number, issued)
        rows.put("number", table, None, (number,))
        store_task(rows, table, number, Task(event.event_id, issued, stops, queued), at)
        rows.publish(self._outgoing.task(event))  # its row lets a successor publish it

    def _stop(
        self, table: str, number: int, task: Task, rows: Store, at: datetime
    ) -> Queued | None:
        """The command that stops a running task; None if it may go on, or its stop is running."""
        lane = task.queued.lane
        is_withdrawn = rows.one("select 1 from stopping where tbl = ?", table) is not None
        must_stop = is_withdrawn or (lane == CLEANINGS and is_held(rows, table))
        if not must_stop or rows.one(STOP_ROW, table) is not None:
            return None
        command = StopRequested(
            table=table,
            location=task.queued.location,
            occurred_at=from_ms(to_ms(at)),
            source=SOURCE,
            caused_by=task.id,
            stops=number,
            command=task.queued.command,
            kind=task.queued.kind,
            partition=task.queued.partition,
        )
        return Queued.of(command, *self._outgoing.command(command, at))


def enqueue(table: str, queued: Queued, rows: Store) -> None:
    """Queue a new command, which `issue` issues once its turn has come."""
    number = None
    if queued.lane == CHECKS:  # the newest replaces one that waits
        [number, *_] = rows.one(_NEXT, table, CHECKS) or (None,)
    enqueue_again(table, queued, rows, number)


def enqueue_again(table: str, queued: Queued, rows: Store, number: int | None = None) -> None:
    """Queue a command that was queued before; with `number` in the place of another command."""
    number = rows.next_sequence() if number is None else number
    rows.put("queued", table, number, (queued.lane,), queued.body)


def _next(table: str, rows: Store) -> Queued | None:
    """Take the next command from the queue: no cleaning while the table is held."""
    lanes = (ANY, CHECKS) if is_held(rows, table) else (ANY, CLEANINGS, CHECKS)
    firsts = [rows.one(_NEXT, table, lane) for lane in lanes]
    first = min((row for row in firsts if row is not None), default=None)
    if first is None:
        return None
    number, body = first
    rows.drop("queued", table, number)
    return Queued.load(body)


def last_number(table: str, rows: Store) -> int:
    """The last number of a table; 0 if it had no task."""
    found = rows.one("select last from number where tbl = ?", table)
    return found[0] if found else 0


def _confirm(table: str, rows: Store) -> None:
    """Give people the answers that waited for the end of a cleaning."""
    found = rows.all("select id, body from unconfirmed where tbl = ? order by id", table)
    for number, body in found:
        rows.drop("unconfirmed", table, number)
        rows.add_to_outbox(records.load_message(body))


def running(table: str, rows: Store) -> tuple[int, Task] | None:
    """A table's running task, with its number; None if none is running."""
    found = rows.one(RUNNING_TASK, table)
    return None if found is None else (found[0], Task.load(found[1]))


def store_task(rows: Store, table: str, number: int, task: Task, at: datetime) -> None:
    """Store a running task; it is overdue an hour from now."""
    columns = task.queued.lane, to_ms(at + OVERDUE_AFTER)
    rows.put("task", table, number, columns, task.body)


def _lane(command: Command) -> int:
    match command:
        case CleaningReleased() | AbortedCleaningReleased() | QuarantineRemovalRequested():
            return CLEANINGS
        case SavepointsCheckRequested(condemned=None):
            return CHECKS
        case StopRequested():
            return STOPS
        case _:
            return ANY
