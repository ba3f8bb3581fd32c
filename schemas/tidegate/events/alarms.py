"""Alarms of the coordinator: one when something waits too long, and one when that has ended."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, Field

from tidegate.events.base import Alarm, Outcome, TableAlarm, TableAlarmEnded, Value
from tidegate.events.fields import Count, Id, Message, Name, Text


class OutstandingReader(Value, frozen=True):
    """A lock, or a transaction without a known lock, that a vacuum still waits for."""

    lock_id: Id | None = None
    transaction_id: Id | None = None
    partition: Text | None = None
    lock_type: Text | None = None
    owner: Text | None = None

    def __str__(self) -> str:
        """For people, with the owner where it is known."""
        lock = "" if self.lock_id is None else f"lock {self.lock_id}"
        txn = "" if self.transaction_id is None else f"transaction {self.transaction_id}"
        kind = f" ({self.lock_type})" if self.lock_type else ""
        owner = f" of {self.owner}" if self.owner else ""
        return f"{' in '.join(filter(None, (lock, txn)))}{kind}{owner}"


class VacuumOverdue(Alarm, frozen=True):
    """A vacuum has waited for its readers for longer than the limit. It goes on waiting.

    `since` is the time at which the broker appended the vacuum. `waits_for` lists the first 100 of
    the `holds_left` locks and transactions that have not ended.
    """

    partition: Text | None = None
    since: AwareDatetime
    limit_seconds: Count
    holds_left: Count
    waits_for: tuple[OutstandingReader, ...] = ()
    message: Message


class VacuumOverdueResolved(Outcome, frozen=True):
    """An overdue vacuum no longer waits: its cleaning was released, or it was replaced.

    `replaced_by` is the later publication of the same vacuum that counts instead; None where the
    cleaning was released. `overdue_since` is when it was reported as overdue.
    """

    partition: Text | None = None
    since: AwareDatetime
    overdue_since: AwareDatetime
    replaced_by: Text | None = None


class UnknownTableReleased(TableAlarm, frozen=True):
    """A release came for a table, but no vacuum of that table within the limit.

    Either the release names another table than the vacuum does, or vacuums of this table are not
    published. `since` is when the broker appended the first release of the table.
    """

    since: AwareDatetime
    limit_seconds: Count
    lock_id: Id | None = None
    transaction_id: Id | None = None
    published_by: Name
    message: Message


class UnknownTableResolved(TableAlarmEnded, frozen=True):
    """The first vacuum of a table with releases only has come; it is the cause of this event."""

    ends: ClassVar[type[TableAlarm]] = UnknownTableReleased

    since: AwareDatetime
    unknown_since: AwareDatetime


class TaskOverdue(Alarm, frozen=True):
    """A task has had no outcome and no progress for an hour; published hourly until it ends.

    `caused_by` is the id of its TaskIssued, `kind` the kind of its command. The task is published
    again with each alarm; its TaskEnded is the end of the alarm.
    """

    number: int = Field(ge=1, lt=2**63)
    kind: Text
    message: Message


class VacuumFlag(StrEnum):
    """Why a published vacuum needs the attention of people."""

    CONTENT_CHANGED = "content-changed"
    """It was published before with another snapshot, range, kind or location. This one counts."""
    HOLDS_AFTER_RELEASE = "holds-after-release"
    """Its cleaning was released before these holds were published: they were not waited for."""
    RELEASE_MAY_BE_FORGOTTEN = "release-may-be-forgotten"
    """It waits for holds whose release may have come and been forgotten: publish that again."""


class VacuumFlagged(Alarm, frozen=True):
    """A vacuum may wait forever, or was published with other content.

    `flag` is a code of `VacuumFlag`.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "flag")

    partition: Text | None = None
    flag: Text
    locks: tuple[int, ...] = ()
    transactions: tuple[int, ...] = ()
    metastore: Text | None = None
    message: Message
