"""The ends of tasks: what a TaskEnded does to the rows of its task and command."""

from __future__ import annotations

from typing import Any, Final

from tidegate.coordinator.rows.records import dumps, load_message, loads
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import SOURCE
from tidegate.coordinator.tasks import STOP_ROW, STOPS, TASK_ROW, Queued, enqueue_again, last_number
from tidegate.events import Stopped, TaskEnd, TaskEnded
from tidegate.events.wire import Message

MOST_AHEAD: Final = 2**32
"""Numbers on a table that exceed the last known one by more than this are taken for corrupt."""
_ROWS: Final = {
    "task": TASK_ROW,
    "failed": "select lane, body from failed where tbl = ? and number = ?",
}


def ended(event: TaskEnded, rows: Store) -> tuple[Queued, bool, list[TaskEnded]] | None:
    """Apply the end of a running task, or of a stop.

    Returns:
        The command, whether it has ended, and outcomes to publish. None if the task is not running
        or is issued again, and for a stop that changes nothing.
    """
    table, number = event.table, event.number
    found = _row_of(event, rows)
    if found is None or (event.end is TaskEnd.NUMBER_TAKEN and not _is_unknown(event, rows)):
        return None
    kind, lane, carried = found
    if lane == STOPS and event.end is not TaskEnd.NUMBER_TAKEN:
        return _stopped(event, carried, rows)
    rows.drop(kind, table, number)
    if event.end is TaskEnd.NUMBER_TAKEN:
        rows.put("number", table, None, (max(last_number(table, rows), event.highest or 0),))
        if lane == STOPS:
            return None
    if kind == "task" and (stop := rows.one(STOP_ROW, table)) is not None:
        rows.drop("task", table, stop[0])  # too late
    queued = Queued(**carried)
    if event.end is TaskEnd.NUMBER_TAKEN and event.highest != number:  # perhaps it has begun
        queued = queued._replace(has_begun=True)
    if event.end in {TaskEnd.REDRIVEN, TaskEnd.NUMBER_TAKEN}:
        enqueue_again(table, lane, queued, rows)
        return queued, False, []
    if event.end is TaskEnd.DEAD_LETTERED:  # perhaps it has begun
        body = dumps([event.caused_by, None, queued._replace(has_begun=True)._asdict()])
        rows.put("failed", table, number, (lane,), body)
    return queued, event.end is not TaskEnd.DEAD_LETTERED, []


def _row_of(event: TaskEnded, rows: Store) -> tuple[str, int, Any] | None:
    """The row type of a task that has ended, its lane, and what it carries."""
    # a copy of a task that became a dead letter may have been carried out
    kinds = {TaskEnd.REDRIVEN: ("failed",), TaskEnd.ANSWERED: ("task", "failed")}
    for kind in kinds.get(event.end, ("task",)):
        lane, body = rows.one(_ROWS[kind], event.table, event.number) or (0, "[null, 0, 0]")
        task, _, carried = loads(body)
        if task is not None and task == event.caused_by:
            return kind, lane, carried
    return None


def _is_unknown(event: TaskEnded, rows: Store) -> bool:
    """Whether the number on the table was not issued from these rows: earlier rows were lost.

    A later number that was issued is a stop's, whose own end says how far the task is. Numbers that
    no coordinator can have reached are corrupt: the task stays overdue, which people see.
    """
    highest, last = event.highest or 0, last_number(event.table, rows)
    # another end may have raised the last number meanwhile
    is_stop = highest <= last and rows.one(STOP_ROW, event.table) is not None
    return highest == event.number or (event.number < highest < last + MOST_AHEAD and not is_stop)


def _stopped(
    event: TaskEnded, number: int, rows: Store
) -> tuple[Queued, bool, list[TaskEnded]] | None:
    """Queue the command of the task with this number again, if it was stopped."""
    table = event.table
    if event.stopped not in {Stopped.BEGUN, Stopped.NOT_BEGUN}:
        return None  # it can't be stopped, or is done: its own end comes, and drops the stop
    lane, body = rows.one(TASK_ROW, table, number)
    rows.drop("task", table, number)
    rows.drop("task", table, event.number)
    task, _, carried = loads(body)
    queued = Queued(**carried)
    if event.stopped is Stopped.BEGUN:
        queued = queued._replace(has_begun=True)
    enqueue_again(table, lane, queued, rows, -number)  # in front: it may be half way
    outcome = TaskEnded(
        table=table,
        location=queued.location,
        occurred_at=event.occurred_at,
        source=SOURCE,
        caused_by=task,
        number=number,
        end=TaskEnd.SUPERSEDED,
        message=f"task {event.number} stopped it",
    )
    return queued, False, [outcome]


def again(event: TaskEnded, rows: Store) -> list[Message]:
    """The message of a running task that was redriven: its worker could not decode it."""
    found = rows.one(TASK_ROW, event.table, event.number)
    if event.end is not TaskEnd.REDRIVEN or found is None:
        return []
    event_id, message, _ = loads(found[1])
    return [load_message(message)] if event_id == event.caused_by else []


def failed(table: str, command: str, rows: Store) -> list[int]:
    """The numbers of a command's tasks that became dead letters."""
    found = rows.all("select number, body from failed where tbl = ?", table)
    return [number for number, body in found if loads(body)[2]["command"] == command]
