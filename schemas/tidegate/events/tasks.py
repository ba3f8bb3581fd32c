"""Tasks, one at a time for a table, and what people decided about dead letters."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final

from pydantic import AwareDatetime, Field

from tidegate.events.base import Caused, Command, Outcome, Value
from tidegate.events.fields import Count, ErrorText, Id, Message, Name, Text


class OriginalHeader(Value, frozen=True, ser_json_bytes="base64", val_json_bytes="base64"):
    """A header of a message. In JSON the value is base64."""

    name: Text
    value: bytes | None = None


class OriginalMessage(Value, frozen=True, ser_json_bytes="base64", val_json_bytes="base64"):
    """A message as it was published, so that a worker can verify its signature itself.

    Its key is the table of the task. In JSON the value is base64.
    """

    topic: Text
    value: bytes
    headers: tuple[OriginalHeader, ...] = Field(default=(), max_length=100)
    appended_at: AwareDatetime
    """The broker's time; of a message that the coordinator made, the time of the decision."""

    @property
    def pairs(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers, as a record has them."""
        return tuple((header.name, header.value) for header in self.headers)

    @property
    def kind(self) -> str:
        """The kind of its event by its header, which is not verified."""
        types = (header.value or b"" for header in self.headers if header.name == "ce_type")
        return next(types, b"a command").decode(errors="replace").rpartition(".")[2]


class TaskIssued(Caused, Command, frozen=True):
    """Execute `command`, as task `number` of the table.

    The number counts up by table and is never used twice. `caused_by` is the command's event_id,
    `location` is the command's. `grounds` are the messages that the command rests on: a person's
    request, its approval.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "number", "caused_by")

    number: int = Field(ge=1, lt=2**63)
    command: OriginalMessage
    grounds: tuple[OriginalMessage, ...] = Field(default=(), max_length=100)

    @property
    def kind(self) -> str:
        """The kind of the command by its header, for people."""
        return self.command.kind


class StopRequested(Caused, Command, frozen=True):
    """Take a number after a running task, so that the task changes nothing any more.

    `stops` is the number of that task, `command` the id of the command that it carries, `kind` its
    kind, `partition` its partition. `caused_by` is the id of its TaskIssued. The TaskEnded of the
    stop says how far the task was. A stop changes nothing itself, and does not wait for the task.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("table", "stops", "caused_by")

    stops: int = Field(ge=1, lt=2**63)
    command: Text
    kind: Text
    partition: Text | None = None


class TaskEnd(StrEnum):
    """How a task ended."""

    ANSWERED = "answered"
    """Its outcomes were published before this event."""
    NUMBER_TAKEN = "number_taken"
    """Another task had its number on the table, or a later one: nothing more is done.

    Of a number that the coordinator gave itself, such as a stop's, this says nothing new."""
    DEAD_LETTERED = "dead_lettered"
    """It can't be processed: it is among the dead letters."""
    REDRIVEN = "redriven"
    """Its dead letter was redriven: it is issued again, under a new number."""
    SUPERSEDED = "superseded"
    """It was stopped, perhaps half way: the coordinator issues its command again, or ends it."""


class Stopped(StrEnum):
    """How far a task was that was stopped, by what is on the table."""

    NOT_BEGUN = "not_begun"
    BEGUN = "begun"
    DONE = "done"
    """Its outcomes were published again before this event."""


class TaskEnded(Outcome, frozen=True):
    """A task has ended, and the next of its table may be issued.

    `caused_by` is the id of its TaskIssued. With `number_taken`, `highest` is the highest number on
    the table. `stopped` is set at the end of a StopRequested.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "end")

    number: int = Field(ge=1, lt=2**63)
    end: TaskEnd = TaskEnd.ANSWERED
    highest: Id | None = None
    message: Message | None = None
    stopped: Stopped | None = None


class AttemptFailed(Outcome, frozen=True):
    """An attempt at a task failed, and there will be another one.

    `caused_by` is the id of the command that the task carries, `kind` its kind. `attempt` counts
    the attempts of one process, of which only 1, 2, 4, 8 and so on are published; `since` is when
    the first one failed.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "number", "attempt")

    number: int = Field(ge=1, lt=2**63)
    kind: Text
    attempt: Count
    since: AwareDatetime
    message: Message


UNKNOWN_TABLE: Final = "unknown.unknown.unknown"
"""The table of a dead letter whose key is not a table's identity; its location is `unknown`."""


class _Resolution(Outcome, frozen=True):
    """The fields that both resolutions share. `caused_by` is the id of the dead letter itself."""

    service: Text
    origin_topic: Text
    origin_partition: Count
    origin_offset: Count
    error: ErrorText
    requested_by: Name


class DeadLetterRedriven(_Resolution, frozen=True):
    """The message was published again, unchanged, on its original topic."""


class DeadLetterDiscarded(_Resolution, frozen=True):
    """A person decided, for `reason`, not to process the message. The dead letter stays there."""

    reason: Text
