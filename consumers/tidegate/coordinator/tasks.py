"""Tasks: what the workers do, one at a time for a table.

A command is queued behind the task of its table that is under way. Its task gets the table's next
number; the TaskEnded of that task frees the next. A row of the task lasts until then, and its
message is published again at each assignment, and hourly with an alarm while it has no outcome:
repeats are free, because the number is on the table.

A task under way is stopped by a task with a later number, which runs beside it. While a person
holds a table no cleaning of it is issued, one that is under way is stopped, and the hold is
confirmed once none is. A stopped command is queued again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tidegate.coordinator.holds import HOLD, is_held
from tidegate.coordinator.rows.records import dump_message, dumps, load_message, loads
from tidegate.coordinator.rows.store import Kind, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningProgressed,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Command,
    DirectoriesCleaned,
    Event,
    OriginalMessage,
    QuarantineRemovalRequested,
    QuarantineRemoved,
    RestoreApprovalRejected,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreProgressed,
    SavepointsCheckRequested,
    Stopped,
    StopRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
    TaskOverdue,
)
from tidegate.events.cleanings import HoldRequest
from tidegate.events.fields import from_ms, span, to_ms
from tidegate.events.topics import TASK_TOPIC
from tidegate.events.wire import Message, original_of
from tidegate.signatures.tokens import Sign

NUMBER: Final = Kind("number", ("last",))
"""The last number of a table: it is never used again."""
TASK: Final = Kind(
    "task", ("lane", "due"), key="number", has_body=True, indexes=("task_due on task (due)",)
)
"""A task under way: its id, its message, and what it carries; of a stop, what it stops. From `due`
on it is overdue."""
OVERDUE_AFTER: Final = timedelta(hours=1)
MOST_AHEAD: Final = 2**32
"""So far above the last known number a number on the table is believed."""
QUEUED: Final = Kind(
    "queued", ("lane",), key="id", has_body=True, indexes=("queued_next on queued (tbl, lane, id)",)
)
"""A command that waits for its turn. The lanes: CLEANINGS wait while the table is held; of CHECKS
one at most is queued."""
ANY, CLEANINGS, CHECKS, STOPS = range(4)
FAILED: Final = Kind("failed", ("lane",), key="number", has_body=True)
"""A task that is among the dead letters: it is issued again once that is redriven."""
UNCONFIRMED: Final = Kind("unconfirmed", key="id", has_body=True)
"""Answers to people, which wait until no cleaning of the table is under way."""
STOPPING: Final = Kind("stopping", key="id", has_body=True)
"""A command whose task is stopped because people withdrew it: the withdrawals."""
KINDS: Final = (NUMBER, TASK, QUEUED, FAILED, UNCONFIRMED, STOPPING, HOLD)
OF_TASKS: Final = frozenset(
    {
        CleaningDeferred,
        CleaningProgressed,
        CleaningStarted,
        CleaningUndone,
        DirectoriesCleaned,
        QuarantineRemoved,
        RestoreApprovalRejected,
        RestoreAwaitingApproval,
        RestoreCompleted,
        RestoreProgressed,
    }
)
"""Outcomes that count only while the task that they are of is under way."""
COUNT_LATE: Final = frozenset({CleaningStarted, DirectoriesCleaned, QuarantineRemoved})
"""But for these: what is in quarantine. They may be redriven late, and rows that are made again
know no task of before."""
MAY_FREE: Final = frozenset({TaskEnded, *HoldRequest.__subclasses__()})
"""Events after which a task may be issued although they led to no command."""
_CLEANINGS: Final = (CleaningReleased, AbortedCleaningReleased, QuarantineRemovalRequested)
_NEXT: Final = (
    "select id, lane, body from queued indexed by queued_next where tbl = ? and lane = ?"
    " order by id limit 1"
)
_UNDER_WAY: Final = f"select number, lane from task where tbl = ? and lane <> {STOPS}"  # noqa: S608
_STOP: Final = f"select number, body from task where tbl = ? and lane = {STOPS}"  # noqa: S608
_ENDED: Final = {
    "task": "select lane, body from task where tbl = ? and number = ?",
    "failed": "select lane, body from failed where tbl = ? and number = ?",
}
Serialize = Callable[[Event, str], Message]


class Queued(NamedTuple):
    """A command that waits for its turn, or that a task carries."""

    command: str
    """Its id."""
    location: str
    kind: str
    original: dict[str, Any]
    """The message of the command, as JSON. Its headers are not verified."""
    approval: str | None = None
    """The id of the approval under which it is carried out."""
    grounds: Sequence[dict[str, Any]] = ()
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
        original: OriginalMessage,
        signed_by: str | None = None,
        *,
        has_begun: bool = False,
    ) -> Queued:
        """A command with its message."""
        return cls(
            command.event_id,
            command.location,
            type(command).__name__,
            original.model_dump(mode="json"),
            partition=getattr(command, "partition", None),
            signed_by=signed_by,
            has_begun=has_begun,
        )


class Tasks:
    """Queues commands, and issues them as tasks. The caller owns the transaction of the rows."""

    def __init__(self, serialize: Serialize, sign: Sign, prefix: str) -> None:
        """Take what makes a message of an event on a topic, and what signs it."""
        self._serialize, self._sign, self._topic = serialize, sign, TASK_TOPIC.name(prefix)

    def issue(self, table: str, rows: Store, at: datetime) -> list[Message]:
        """The messages to publish now: the next task or a stop, and what its end confirms."""
        found = rows.one(_UNDER_WAY, table)
        if found is not None:
            number, lane = found
            messages = [] if lane == CLEANINGS else _confirmations(table, rows)
            if _must_stop(table, lane, rows):
                messages.append(self._stop(table, number, rows, at))
            return messages
        messages = _confirmations(table, rows)
        lanes = (ANY, CHECKS) if is_held(rows, table) else (ANY, CLEANINGS, CHECKS)
        candidates = [rows.one(_NEXT, table, lane) for lane in lanes]
        first = min((row for row in candidates if row is not None), default=None)
        return messages if first is None else [*messages, self._task(table, first, rows, at)]

    def _task(self, table: str, found: tuple[int, int, str], rows: Store, at: datetime) -> Message:
        sequence, lane, body = found
        rows.drop("queued", table, sequence)
        queued = Queued(**loads(body))
        return self._issued(table, lane, queued, queued._asdict(), rows, at)

    def _stop(self, table: str, number: int, rows: Store, at: datetime) -> Message:
        """The stop of the task under way."""
        _, body = rows.one(_ENDED["task"], table, number)
        task, _, carried = loads(body)
        queued = Queued(**carried)
        command = StopRequested(
            table=table,
            location=queued.location,
            occurred_at=from_ms(to_ms(at)),
            source=SOURCE,
            caused_by=task,
            stops=number,
            command=queued.command,
            kind=queued.kind,
            partition=queued.partition,
        )
        message = self._sign(command, self._serialize(command, self._topic))
        # as the signature says
        stop = Queued.of(command, original_of(message, max(at, datetime.now(UTC))))
        return self._issued(table, STOPS, stop, number, rows, at)

    def _issued(  # noqa: PLR0913, PLR0917 - a row
        self,
        table: str,
        lane: int,
        queued: Queued,
        row: int | dict[str, Any],
        rows: Store,
        at: datetime,
    ) -> Message:
        """The message of a new task."""
        number = 1 + _last(table, rows)
        task = TaskIssued(
            table=table,
            location=queued.location,
            occurred_at=from_ms(to_ms(at)),
            source=SOURCE,
            caused_by=queued.command,
            number=number,
            command=of_json(queued.original),
            grounds=tuple(map(of_json, queued.grounds)),
        )
        message = self._serialize(task, self._topic)
        rows.put("number", table, None, (number,))
        body = dumps([task.event_id, dump_message(message), row])
        _put_task(rows, table, number, lane, body, at)
        return message


def queue(command: Command, queued: Queued, rows: Store) -> None:
    """Queue a command, which `issue` issues once its turn has come."""
    table, lane, number = command.table, _lane(command), None
    if lane == CHECKS:  # the newest replaces one that waits
        [number, *_] = rows.one(_NEXT, table, lane) or (None,)
    put(table, lane, queued, rows, number)


def put(table: str, lane: int, queued: Queued, rows: Store, number: int | None = None) -> None:
    """Queue a command that was made before; with `number` in the place of another command."""
    number = rows.next_sequence() if number is None else number
    rows.put("queued", table, number, (lane,), dumps(queued._asdict()))


def drop_queued(table: str, command: str, rows: Store) -> None:
    """Let a command that waits for its turn never have it."""
    for number, body in rows.all("select id, body from queued where tbl = ?", table):
        if loads(body)["command"] == command:
            rows.drop("queued", table, number)


def ended(event: TaskEnded, rows: Store) -> tuple[Queued, bool, list[TaskEnded]] | None:
    """Apply the end of a task under way, or of a stop.

    Returns:
        None if it is issued again, is not under way, or is a stop that changes nothing.
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
        rows.put("number", table, None, (max(_last(table, rows), event.highest or 0),))
        if lane == STOPS:
            return None
    if kind == "task" and (stop := rows.one(_STOP, table)) is not None:
        rows.drop("task", table, stop[0])  # it comes too late
    queued = Queued(**carried)
    if event.end is TaskEnd.NUMBER_TAKEN and event.highest != number:  # perhaps half way
        queued = queued._replace(has_begun=True)
    if event.end in {TaskEnd.REDRIVEN, TaskEnd.NUMBER_TAKEN}:
        put(table, lane, queued, rows)
        return queued, False, []
    if event.end is TaskEnd.DEAD_LETTERED:  # perhaps half way
        body = dumps([event.caused_by, None, queued._replace(has_begun=True)._asdict()])
        rows.put("failed", table, number, (lane,), body)
    return queued, event.end is not TaskEnd.DEAD_LETTERED, []


def _row_of(event: TaskEnded, rows: Store) -> tuple[str, int, Any] | None:
    """The kind of the row of a task that has ended, its lane, and what it carries."""
    # of a task that is among the dead letters a copy may have been carried out
    kinds = {TaskEnd.REDRIVEN: ("failed",), TaskEnd.ANSWERED: ("task", "failed")}
    for kind in kinds.get(event.end, ("task",)):
        lane, body = rows.one(_ENDED[kind], event.table, event.number) or (0, "[null, 0, 0]")
        task, _, carried = loads(body)
        if task is not None and task == event.caused_by:
            return kind, lane, carried
    return None


def _last(table: str, rows: Store) -> int:
    """The last number of a table; 0: it had no task."""
    found = rows.one("select last from number where tbl = ?", table)
    return found[0] if found else 0


def _is_unknown(event: TaskEnded, rows: Store) -> bool:
    """Whether the table has a number that these rows did not give: earlier rows were lost.

    A later number that they gave is a stop's, whose own end says how far the task is. One that no
    coordinator can have reached is not continued: the task stays overdue, which people see.
    """
    highest, last = event.highest or 0, _last(event.table, rows)
    # another end may have raised the last number meanwhile
    is_stop = highest <= last and rows.one(_STOP, event.table) is not None
    return highest == event.number or (event.number < highest < last + MOST_AHEAD and not is_stop)


def _stopped(
    event: TaskEnded, number: int, rows: Store
) -> tuple[Queued, bool, list[TaskEnded]] | None:
    """Queue what the task with this number carries again, if it was stopped."""
    table = event.table
    if event.stopped not in {Stopped.BEGUN, Stopped.NOT_BEGUN}:
        return None  # it can't be stopped, or is done: its own end comes, and drops the stop
    lane, body = rows.one(_ENDED["task"], table, number)
    rows.drop("task", table, number)
    rows.drop("task", table, event.number)
    task, _, carried = loads(body)
    queued = Queued(**carried)
    if event.stopped is Stopped.BEGUN:
        queued = queued._replace(has_begun=True)
    put(table, lane, queued, rows, -number)  # in front: it may be half way
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


def progressed(table: str, rows: Store, at: datetime) -> None:
    """The task under way is not overdue yet: its worker goes on."""
    number, _ = rows.one(_UNDER_WAY, table)
    lane, body = rows.one(_ENDED["task"], table, number)
    _put_task(rows, table, number, lane, body, at)


def next_overdue(rows: Store) -> int | None:
    """When the first task is overdue, in ms of the broker's time."""
    due: int | None = rows.one("select min(due) from task indexed by task_due")[0]
    return due


def overdue(rows: Store, at: datetime, limit: int) -> Effects:
    """The messages of overdue tasks, again, with an alarm for each task that is not a stop."""
    effects = Effects()
    found = rows.all(
        "select tbl, number, lane, body from task indexed by task_due where due <= ?"
        " order by due limit ?",
        *(to_ms(at), limit),
    )
    for table, number, lane, body in found:
        _put_task(rows, table, number, lane, body, at)
        task, message, carried = loads(body)
        effects.repeated.append(load_message(message))
        if lane == STOPS:
            continue
        queued = Queued(**carried)
        alarm = TaskOverdue(
            table=table,
            location=queued.location,
            occurred_at=at,
            source=SOURCE,
            caused_by=task,
            number=number,
            kind=queued.kind,
            message=f"task {number} ({queued.kind}) has had no outcome for"
            f" {span(OVERDUE_AFTER)}, and the table's next tasks wait for it: does its worker"
            " run, and what does it log?",
        )
        effects.outcomes.append(alarm)
    return effects


def again(event: TaskEnded, rows: Store) -> list[Message]:
    """The message of a redriven task that is under way: its worker could not decode it."""
    found = rows.one(_ENDED["task"], event.table, event.number)
    if event.end is not TaskEnd.REDRIVEN or found is None:
        return []
    event_id, message, _ = loads(found[1])
    return [load_message(message)] if event_id == event.caused_by else []


def carried(outcome: Event, rows: Store) -> Queued | None:
    """What the task carries that an outcome is of; None: no task under way.

    An outcome is of the task of the command that caused it; that of an approval is of the
    command that was approved.
    """
    queued = under_way(outcome.table, rows)
    is_its = queued is not None and outcome.caused_by in {queued.command, queued.approval}
    return queued if is_its else None


def failed(table: str, command: str, rows: Store) -> list[int]:
    """The numbers of the tasks of a command that are among the dead letters."""
    found = rows.all("select number, body from failed where tbl = ?", table)
    return [number for number, body in found if loads(body)[2]["command"] == command]


def under_way(table: str, rows: Store) -> Queued | None:
    """What the task of a table carries that is under way."""
    found = rows.one(_UNDER_WAY, table)
    if found is None:
        return None
    _, body = rows.one(_ENDED["task"], table, found[0])
    return Queued(**loads(body)[2])


def confirm_later(table: str, outcomes: Sequence[Message], rows: Store) -> bool:
    """Whether a cleaning is under way; then `issue` publishes these outcomes behind its end."""
    found = rows.one(_UNDER_WAY, table)
    if found is None or found[1] != CLEANINGS:
        return False
    for outcome in outcomes:
        rows.put("unconfirmed", table, rows.next_sequence(), body=dump_message(outcome))
    return True


def unended(rows: Store) -> list[Message]:
    """The messages of all tasks under way, and of stops."""
    bodies = rows.all("select body from task order by tbl, number")
    return [load_message(loads(body)[1]) for (body,) in bodies]


def _confirmations(table: str, rows: Store) -> list[Message]:
    found = rows.all("select id, body from unconfirmed where tbl = ? order by id", table)
    for number, _ in found:
        rows.drop("unconfirmed", table, number)
    return [load_message(body) for _, body in found]


def _must_stop(table: str, lane: int, rows: Store) -> bool:
    """Whether the task under way is to be stopped, and no stop is under way.

    It runs for every release during a task, so it reads no task.
    """
    is_wanted = (lane == CLEANINGS and is_held(rows, table)) or rows.one(
        "select 1 from stopping where tbl = ?", table
    ) is not None
    return is_wanted and rows.one(_STOP, table) is None


def _put_task(  # noqa: PLR0913, PLR0917 - a row
    rows: Store, table: str, number: int, lane: int, body: str, at: datetime
) -> None:
    """Put the row of a task under way: from now on its outcome is awaited."""
    rows.put("task", table, number, (lane, to_ms(at + OVERDUE_AFTER)), body)


def of_json(stored: dict[str, Any]) -> OriginalMessage:
    """The message of such JSON."""
    return OriginalMessage.model_validate_json(dumps(stored))


def _lane(command: Command) -> int:
    if isinstance(command, _CLEANINGS):
        return CLEANINGS
    is_check = isinstance(command, SavepointsCheckRequested) and command.condemned is None
    return CHECKS if is_check else ANY
