"""Tasks: what the workers do, one at a time for a table.

A command is queued behind the task of its table that is under way. Its task gets the table's next
number; the TaskEnded of that task frees the next. A row of the task lasts until then, and its
message is published again at each assignment: repeats are free, because the number is on the table.
While a person holds a table no cleaning of it is issued, and the hold is confirmed once none is
under way. A request of a person is used once, however often its bytes are published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from tidegate.coordinator.alarms import SOURCE
from tidegate.coordinator.holds import hashed, is_held
from tidegate.coordinator.store import Kind, Store, dump_message, dumps, load_message, loads
from tidegate.coordinator.subject import milliseconds, moment
from tidegate.errors import PermanentError
from tidegate.events import (
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoRequested,
    Command,
    Event,
    OriginalMessage,
    QuarantineRemoved,
    TaskEnd,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.message import Message
from tidegate.events.topics import REQUEST_TOPIC, TASK_TOPIC

NUMBER: Final = Kind("number", ("last",))
"""The last number of a table: it is never used again."""
TASK: Final = Kind("task", ("cleans",), key="number", has_body=True)
"""A task under way, or one that is among the dead letters: its id and command, and its message."""
QUEUED: Final = Kind(
    "queued",
    ("cleans",),
    key="id",
    has_body=True,
    indexes=("queued_next on queued (tbl, cleans, id)",),
)
"""A command that waits for its turn; `cleans` is 1 where a hold of the table stops it."""
FAILED: Final = Kind("failed", ("cleans",), key="number", has_body=True)
"""A task that is among the dead letters: it is issued again once that is redriven."""
UNCONFIRMED: Final = Kind("unconfirmed", key="id", has_body=True)
"""Answers to people, which wait until no cleaning of the table is under way."""
USED: Final = Kind("used", ("at",), key="id", indexes=("used_at on used (at)",))
"""A request that was used."""
KINDS: Final = (NUMBER, TASK, QUEUED, FAILED, UNCONFIRMED, USED)
USED_FOR: Final = (REQUEST_TOPIC.retention or timedelta(0)) + timedelta(days=1)
"""A request's id is remembered for longer than its topic keeps it; an older one is refused."""
_USED_MS: Final = USED_FOR // timedelta(milliseconds=1)
OF_TASKS: Final = frozenset({CleaningDeferred, CleaningStarted, CleaningUndone, QuarantineRemoved})
"""Outcomes that count only while the task that they are of is under way."""
MAY_FREE: Final = frozenset(
    {
        TaskEnded,
        CleaningUndoRequested,
        CleaningHoldRequested,
        CleaningHoldRemovalRequested,
    }
)
"""Events after which a task may be issued although they led to no command."""
_FORGOTTEN_AT_ONCE: Final = 100
_NEXT: Final = (
    "select id, cleans, body from queued indexed by queued_next where tbl = ? and cleans = ?"
    " order by id limit 1"
)
_ENDED: Final = {
    "task": "select cleans, body from task where tbl = ? and number = ?",
    "failed": "select cleans, body from failed where tbl = ? and number = ?",
}
Serialize = Callable[[Event, str], Message]


class Tasks:
    """Queues commands, and issues them as tasks. The caller owns the transaction of the rows."""

    def __init__(self, serialize: Serialize, prefix: str) -> None:
        """Take what makes a signed message of an event on a topic."""
        self._serialize, self._topic = serialize, TASK_TOPIC.name(prefix)

    @staticmethod
    def is_used(request: Command, rows: Store, at: datetime) -> bool:
        """Whether a request was used; from now on it is.

        Raises:
            PermanentError: it is so old that its id may have been forgotten.
        """
        table, number, now = request.table, hashed(request.event_id), milliseconds(at)
        if rows.one("select 1 from used where tbl = ? and id = ?", table, number) is not None:
            return True
        # the newest is never forgotten: whatever it let be forgotten is refused by it
        [newest] = rows.one("select max(at) from used indexed by used_at")
        if now < (newest or 0) - _USED_MS:
            raise PermanentError(
                f"the broker took this request at {at:%Y-%m-%dT%H:%M:%SZ}, more than"
                f" {USED_FOR.days} days before another: it may have been used",
            )
        rows.put("used", table, number, (now,))
        for old in rows.all(
            "select tbl, id from used indexed by used_at where at < ? order by at limit ?",
            *(now - _USED_MS, _FORGOTTEN_AT_ONCE),
        ):
            rows.drop("used", *old)
        return False

    @staticmethod
    def queue(
        command: Command,
        original: OriginalMessage,
        grounds: Sequence[OriginalMessage],
        rows: Store,
    ) -> None:
        """Queue a command, which `issue` issues once its turn has come."""
        body: list[object] = [command.event_id, command.location]
        body += [item.model_dump(mode="json") for item in (original, *grounds)]
        Tasks._queue(command.table, int(_cleans(command)), dumps(body), rows)

    @staticmethod
    def ended(event: TaskEnded, rows: Store) -> None:
        """Apply the end of a task; of one that is not under way nothing is changed."""
        table, number = event.table, event.number
        redriven = event.end is TaskEnd.REDRIVEN
        kind = "failed" if redriven else "task"
        found = rows.one(_ENDED[kind], table, number)
        if found is None or loads(found[1])[0] != event.caused_by:
            return
        rows.drop(kind, table, number)
        cleans, (_, _, _, body) = found[0], loads(found[1])
        if event.end is TaskEnd.NUMBER_TAKEN:
            [last] = rows.one("select last from number where tbl = ?", table)
            rows.put("number", table, None, (max(last, event.highest or 0),))
        if redriven or event.end is TaskEnd.NUMBER_TAKEN:
            Tasks._queue(table, cleans, body, rows)
        elif event.end is TaskEnd.DEAD_LETTERED:
            rows.put("failed", table, number, (cleans,), found[1])

    def issue(self, table: str, rows: Store, at: datetime) -> list[Message]:
        """The messages to publish now: the next task, and what its predecessor kept unsaid."""
        cleans = rows.one("select cleans from task where tbl = ?", table)
        if cleans is not None and cleans[0]:
            return []
        messages = self._confirmations(table, rows)
        if cleans is not None:
            return messages
        candidates = [rows.one(_NEXT, table, 0)]
        if not is_held(rows, table):
            candidates.append(rows.one(_NEXT, table, 1))
        found = min((row for row in candidates if row is not None), default=None)
        return messages if found is None else [*messages, self._task(table, found, rows, at)]

    @staticmethod
    def is_of_task(outcome: Event, rows: Store) -> bool:
        """Whether an outcome answers the command of a task of its table that is under way."""
        bodies = rows.all("select body from task where tbl = ?", outcome.table)
        return any(loads(body)[1] == outcome.caused_by for (body,) in bodies)

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
        return [load_message(loads(body)[2]) for (body,) in bodies]

    @staticmethod
    def _queue(table: str, cleans: int, body: str, rows: Store) -> None:
        rows.put("queued", table, rows.next_sequence(), (cleans,), body)

    @staticmethod
    def _confirmations(table: str, rows: Store) -> list[Message]:
        found = rows.all("select id, body from unconfirmed where tbl = ? order by id", table)
        for number, _ in found:
            rows.drop("unconfirmed", table, number)
        return [load_message(body) for _, body in found]

    def _task(self, table: str, queued: tuple[int, int, str], rows: Store, at: datetime) -> Message:
        sequence, cleans, body = queued
        rows.drop("queued", table, sequence)
        last = rows.one("select last from number where tbl = ?", table)
        number = 1 + (last[0] if last else 0)
        command, location, original, *grounds = loads(body)
        task = TaskIssued.model_validate(
            {
                "table": table,
                "location": location,
                "occurred_at": moment(milliseconds(at)),
                "source": SOURCE,
                "caused_by": command,
                "number": number,
                "command": OriginalMessage.model_validate_json(dumps(original)),
                "grounds": tuple(OriginalMessage.model_validate_json(dumps(g)) for g in grounds),
            }
        )
        message = self._serialize(task, self._topic)
        rows.put("number", table, None, (number,))
        row = dumps([task.event_id, command, dump_message(message), body])
        rows.put("task", table, number, (cleans,), row)
        return message


def _cleans(command: Command) -> bool:
    return not isinstance(command, CleaningUndoRequested)
