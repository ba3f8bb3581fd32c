"""Tasks: what the workers do, one at a time for a table.

A command is queued behind the task of its table that is under way. Its task gets the table's next
number; the TaskEnded of that task frees the next. A row of the task lasts until then, and its
message is published again at each assignment: repeats are free, because the number is on the table.
While a person holds a table no cleaning of it is issued, and the hold is confirmed once none is
under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from tidegate.coordinator.alarms import SOURCE
from tidegate.coordinator.holds import HOLD, is_held
from tidegate.coordinator.store import Kind, Store, dump_message, dumps, load_message, loads
from tidegate.coordinator.subject import milliseconds, moment
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    Command,
    Event,
    OriginalMessage,
    QuarantineRemovalRequested,
    QuarantineRemoved,
    RestoreApprovalRejected,
    RestoreAwaitingApproval,
    SavepointsCheckRequested,
    TaskEnd,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.holds import HoldRequest
from tidegate.events.message import Message
from tidegate.events.topics import TASK_TOPIC

NUMBER: Final = Kind("number", ("last",))
"""The last number of a table: it is never used again."""
TASK: Final = Kind("task", ("cleans",), key="number", has_body=True)
"""A task under way: its id, its message, and what it carries."""
QUEUED: Final = Kind(
    "queued",
    ("lane",),
    key="id",
    has_body=True,
    indexes=("queued_next on queued (tbl, lane, id)",),
)
"""A command that waits for its turn. The lanes: CLEANINGS wait while the table is held; of CHECKS
one at most is queued."""
ANY, CLEANINGS, CHECKS = range(3)
FAILED: Final = Kind("failed", ("cleans",), key="number", has_body=True)
"""A task that is among the dead letters: it is issued again once that is redriven."""
UNCONFIRMED: Final = Kind("unconfirmed", key="id", has_body=True)
"""Answers to people, which wait until no cleaning of the table is under way."""
KINDS: Final = (NUMBER, TASK, QUEUED, FAILED, UNCONFIRMED, HOLD)
OF_TASKS: Final = frozenset(
    {
        CleaningDeferred,
        CleaningStarted,
        CleaningUndone,
        QuarantineRemoved,
        RestoreApprovalRejected,
        RestoreAwaitingApproval,
    }
)
"""Outcomes that count only while the task that they are of is under way."""
MAY_FREE: Final = frozenset({TaskEnded, *HoldRequest.__subclasses__()})
"""Events after which a task may be issued although they led to no command."""
_CLEANINGS: Final = (CleaningReleased, AbortedCleaningReleased, QuarantineRemovalRequested)
_NEXT: Final = (
    "select id, lane, body from queued indexed by queued_next where tbl = ? and lane = ?"
    " order by id limit 1"
)
_ENDED: Final = {
    "task": "select cleans, body from task where tbl = ? and number = ?",
    "failed": "select cleans, body from failed where tbl = ? and number = ?",
}
Serialize = Callable[[Event, str], Message]


class Queued(NamedTuple):
    """A command that waits for its turn, or that a task carries."""

    command: str
    """Its id."""
    location: str
    original: dict[str, Any]
    """The message of the command, as JSON."""
    approval: str | None = None
    """The id of the approval under which it is carried out."""
    grounds: Sequence[dict[str, Any]] = ()
    """The messages, besides the command's, that the task rests on: its approval."""

    @classmethod
    def of(cls, command: Command, original: OriginalMessage) -> Queued:
        """A command with its message."""
        return cls(command.event_id, command.location, as_json(original))


def as_json(message: OriginalMessage) -> dict[str, Any]:
    """A message for a row."""
    return message.model_dump(mode="json")


class Tasks:
    """Queues commands, and issues them as tasks. The caller owns the transaction of the rows."""

    def __init__(self, serialize: Serialize, prefix: str) -> None:
        """Take what makes a message of an event on a topic."""
        self._serialize, self._topic = serialize, TASK_TOPIC.name(prefix)

    @staticmethod
    def queue(command: Command, original: OriginalMessage, rows: Store) -> None:
        """Queue a command, which `issue` issues once its turn has come."""
        table, lane, number = command.table, _lane(command), None
        if lane == CHECKS:  # the newest replaces one that waits
            [number, *_] = rows.one(_NEXT, table, lane) or (None,)
        Tasks.put(table, lane, Queued.of(command, original), rows, number)

    @staticmethod
    def put(table: str, lane: int, queued: Queued, rows: Store, number: int | None = None) -> None:
        """Queue a command that was made before; with `number` in the place of another command."""
        number = rows.next_sequence() if number is None else number
        rows.put("queued", table, number, (lane,), dumps(queued._asdict()))

    @staticmethod
    def ended(event: TaskEnded, rows: Store) -> Queued | None:
        """Apply the end of a task that is under way.

        Returns:
            What it carried, if that is over; None: it is issued again, or is not under way.
        """
        table, number = event.table, event.number
        redriven = event.end is TaskEnd.REDRIVEN
        kind = "failed" if redriven else "task"
        found = rows.one(_ENDED[kind], table, number)
        if found is None or loads(found[1])[0] != event.caused_by:
            return None
        rows.drop(kind, table, number)
        cleans, (_, _, queued) = found[0], loads(found[1])
        if event.end is TaskEnd.NUMBER_TAKEN:
            [last] = rows.one("select last from number where tbl = ?", table)
            rows.put("number", table, None, (max(last, event.highest or 0),))
        carried = Queued(**queued)
        if redriven or event.end is TaskEnd.NUMBER_TAKEN:
            Tasks.put(table, CLEANINGS if cleans else ANY, carried, rows)
            return None
        if event.end is TaskEnd.DEAD_LETTERED:
            rows.put("failed", table, number, (cleans,), found[1])
            return None
        return carried

    @staticmethod
    def again(event: TaskEnded, rows: Store) -> list[Message]:
        """The message of a redriven task that is under way: its worker could not decode it."""
        found = rows.one(_ENDED["task"], event.table, event.number)
        if event.end is not TaskEnd.REDRIVEN or found is None:
            return []
        event_id, message, _ = loads(found[1])
        return [load_message(message)] if event_id == event.caused_by else []

    def issue(self, table: str, rows: Store, at: datetime) -> list[Message]:
        """The messages to publish now: the next task, and what its predecessor kept unsaid."""
        cleans = rows.one("select cleans from task where tbl = ?", table)
        if cleans is not None and cleans[0]:
            return []
        messages = self._confirmations(table, rows)
        if cleans is not None:
            return messages
        lanes = (ANY, CHECKS) if is_held(rows, table) else (ANY, CLEANINGS, CHECKS)
        candidates = [rows.one(_NEXT, table, lane) for lane in lanes]
        found = min((row for row in candidates if row is not None), default=None)
        return messages if found is None else [*messages, self._task(table, found, rows, at)]

    @staticmethod
    def carried(outcome: Event, rows: Store) -> Queued | None:
        """What the task carries that an outcome is of; None: no task under way.

        An outcome is of the task of the command that caused it; that of an approval is of the
        command that was approved.
        """
        for (body,) in rows.all("select body from task where tbl = ?", outcome.table):
            queued = Queued(**loads(body)[2])
            if outcome.caused_by in {queued.command, queued.approval}:
                return queued
        return None

    @staticmethod
    def confirm_later(table: str, outcomes: Sequence[Message], rows: Store) -> bool:
        """Whether a cleaning is under way; then `issue` publishes these outcomes behind its end."""
        found = rows.one("select cleans from task where tbl = ?", table)
        if found is None or not found[0]:
            return False
        for outcome in outcomes:
            rows.put("unconfirmed", table, rows.next_sequence(), body=dump_message(outcome))
        return True

    @staticmethod
    def under_way(rows: Store) -> list[Message]:
        """The messages of all tasks under way."""
        bodies = rows.all("select body from task order by tbl, number")
        return [load_message(loads(body)[1]) for (body,) in bodies]

    @staticmethod
    def _confirmations(table: str, rows: Store) -> list[Message]:
        found = rows.all("select id, body from unconfirmed where tbl = ? order by id", table)
        for number, _ in found:
            rows.drop("unconfirmed", table, number)
        return [load_message(body) for _, body in found]

    def _task(self, table: str, found: tuple[int, int, str], rows: Store, at: datetime) -> Message:
        sequence, lane, body = found
        rows.drop("queued", table, sequence)
        last = rows.one("select last from number where tbl = ?", table)
        number, queued = 1 + (last[0] if last else 0), Queued(**loads(body))
        task = TaskIssued(
            table=table,
            location=queued.location,
            occurred_at=moment(milliseconds(at)),
            source=SOURCE,
            caused_by=queued.command,
            number=number,
            command=_message(queued.original),
            grounds=tuple(map(_message, queued.grounds)),
        )
        message = self._serialize(task, self._topic)
        rows.put("number", table, None, (number,))
        row = dumps([task.event_id, dump_message(message), queued._asdict()])
        rows.put("task", table, number, (int(lane == CLEANINGS),), row)
        return message


def _message(stored: dict[str, Any]) -> OriginalMessage:
    return OriginalMessage.model_validate_json(dumps(stored))


def _lane(command: Command) -> int:
    if isinstance(command, _CLEANINGS):
        return CLEANINGS
    is_check = isinstance(command, SavepointsCheckRequested) and command.condemned is None
    return CHECKS if is_check else ANY
