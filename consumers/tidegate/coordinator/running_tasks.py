"""Running tasks: their outcomes, progress and ends, and those that are overdue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tidegate.coordinator import tasks
from tidegate.coordinator.rows.records import dump_message
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.coordinator.tasks import Queued, Task
from tidegate.events import Event, Stopped, TaskEnd, TaskEnded, TaskIssued, TaskOverdue
from tidegate.events.fields import span, to_ms
from tidegate.events.wire import Message

MOST_AHEAD: Final = 2**32
"""Numbers on a table that exceed the last known one by more than this are taken for corrupt."""
_ROWS: Final = {
    "task": tasks.TASK_ROW,
    "failed": "select body from failed where tbl = ? and number = ?",
}


def ended(event: TaskEnded, rows: Store) -> tuple[Queued, list[TaskEnded]] | None:
    """Apply the end of a running task, or of a stop.

    Returns:
        The command, and outcomes to publish. None if the task is not running or is issued again,
        and for a stop that changes nothing.
    """
    table, number = event.table, event.number
    found = _row_of(event, rows)
    if found is None or (event.end is TaskEnd.NUMBER_TAKEN and not _is_unknown(event, rows)):
        return None
    kind, task = found
    if task.stops is not None and event.end is not TaskEnd.NUMBER_TAKEN:
        return _stopped(event, task.stops, rows)
    rows.drop(kind, table, number)
    if event.end is TaskEnd.NUMBER_TAKEN:
        rows.put("number", table, None, (max(tasks.last_number(table, rows), event.highest or 0),))
        if task.stops is not None:
            return None
    if kind == "task" and (stop := rows.one(tasks.STOP_ROW, table)) is not None:
        rows.drop("task", table, stop[0])  # too late
    queued = task.queued
    if event.end is TaskEnd.NUMBER_TAKEN and event.highest != number:  # perhaps it has begun
        queued = queued._replace(has_begun=True)
    if event.end in {TaskEnd.REDRIVEN, TaskEnd.NUMBER_TAKEN}:
        tasks.enqueue_again(table, queued, rows)
    elif event.end is TaskEnd.DEAD_LETTERED:  # perhaps it has begun
        failed_task = task._replace(queued=queued._replace(has_begun=True))
        rows.put("failed", table, number, body=failed_task.body)
    return queued, []


def _row_of(event: TaskEnded, rows: Store) -> tuple[str, Task] | None:
    """The row type of a task that has ended, and the task."""
    # a copy of a task that became a dead letter may have been carried out
    kinds = {TaskEnd.REDRIVEN: ("failed",), TaskEnd.ANSWERED: ("task", "failed")}
    for kind in kinds.get(event.end, ("task",)):
        found = rows.one(_ROWS[kind], event.table, event.number)
        if found and (task := Task.load(found[0])).id == event.caused_by:
            return kind, task
    return None


def _is_unknown(event: TaskEnded, rows: Store) -> bool:
    """Whether the number on the table was not issued from these rows: earlier rows were lost.

    A later number that was issued is a stop's, whose own end says how far the task is. Numbers that
    no coordinator can have reached are corrupt: the task stays overdue, which people see.
    """
    highest, last = event.highest or 0, tasks.last_number(event.table, rows)
    # another end may have raised the last number meanwhile
    is_stop = highest <= last and rows.one(tasks.STOP_ROW, event.table) is not None
    return highest == event.number or (event.number < highest < last + MOST_AHEAD and not is_stop)


def _stopped(event: TaskEnded, number: int, rows: Store) -> tuple[Queued, list[TaskEnded]] | None:
    """Queue the command of the task with this number again, if it was stopped."""
    table = event.table
    if event.stopped not in {Stopped.BEGUN, Stopped.NOT_BEGUN}:
        return None  # it can't be stopped, or is done: its own end comes, and drops the stop
    [body] = rows.one(tasks.TASK_ROW, table, number)
    rows.drop("task", table, number)
    rows.drop("task", table, event.number)
    task = Task.load(body)
    queued = task.queued
    if event.stopped is Stopped.BEGUN:
        queued = queued._replace(has_begun=True)
    tasks.enqueue_again(table, queued, rows, -number)  # in front: it may be half way
    outcome = TaskEnded(
        table=table,
        location=queued.location,
        occurred_at=event.occurred_at,
        source=SOURCE,
        caused_by=task.id,
        number=number,
        end=TaskEnd.SUPERSEDED,
        message=f"task {event.number} stopped it",
    )
    return queued, [outcome]


def again(event: TaskEnded, rows: Store) -> list[TaskIssued]:
    """The running task that was redriven: its worker could not decode it."""
    found = rows.one(tasks.TASK_ROW, event.table, event.number)
    if event.end is not TaskEnd.REDRIVEN or found is None:
        return []
    issued = Task.load(found[0]).event(event.table, event.number)
    return [issued] if issued.event_id == event.caused_by else []


def failed(table: str, command: str, rows: Store) -> list[int]:
    """The numbers of a command's tasks that became dead letters."""
    found = rows.all("select number, body from failed where tbl = ?", table)
    return [number for number, body in found if Task.load(body).queued.command == command]


def progressed(table: str, rows: Store, at: datetime) -> None:
    """The worker of the running task has made progress: it is overdue an hour from now."""
    if (found := tasks.running(table, rows)) is not None:
        tasks.store_task(rows, table, *found, at)


def next_overdue(rows: Store) -> int | None:
    """When the first task is overdue, in ms of the broker's time."""
    due: int | None = rows.one("select min(due) from task indexed by task_due")[0]
    return due


def overdue(rows: Store, at: datetime, limit: int) -> Effects:
    """Overdue tasks, to publish again, with an alarm for each that is not a stop."""
    effects = Effects()
    found = rows.all(
        "select tbl, number, body from task indexed by task_due where due <= ?"
        " order by due limit ?",
        *(to_ms(at), limit),
    )
    for table, number, body in found:
        task = Task.load(body)
        tasks.store_task(rows, table, number, task, at)
        effects.republish.append(task.event(table, number))
        if task.stops is not None:
            continue
        queued = task.queued
        alarm = TaskOverdue(
            table=table,
            location=queued.location,
            occurred_at=at,
            source=SOURCE,
            caused_by=task.id,
            number=number,
            kind=queued.kind,
            message=f"task {number} ({queued.kind}) has had no outcome for"
            f" {span(tasks.OVERDUE_AFTER)}, and the table's next tasks wait for it: does its worker"
            " run, and what does it log?",
        )
        effects.outcomes.append(alarm)
    return effects


def carried(outcome: Event, rows: Store) -> Queued | None:
    """The command of the running task, if an outcome is about it; else None.

    The outcome names the command as its cause, or the approval under which that is carried out.
    """
    _, task = tasks.running(outcome.table, rows) or (0, None)
    if task is None or outcome.caused_by not in {task.queued.command, task.queued.approval}:
        return None
    return task.queued


def confirm_later(table: str, outcomes: Sequence[Message], rows: Store) -> bool:
    """Whether a cleaning is running; then `issue` publishes these outcomes once it has ended."""
    _, task = tasks.running(table, rows) or (0, None)
    if task is None or task.queued.lane != tasks.CLEANINGS:
        return False
    for outcome in outcomes:
        rows.put("unconfirmed", table, rows.next_sequence(), body=dump_message(outcome))
    return True
