"""Holds of people on a table: while there is one, nothing of the table is cleaned.

They are not the locks and transactions that a vacuum waits for.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from tidegate.events.base import ReasonedRequest
from tidegate.events.facts import VacuumKind
from tidegate.events.limits import (
    MAX_DIRECTORIES,
    Count,
    DirectoryName,
    Id,
    Message,
    Path,
    Snapshot,
    Text,
)
from tidegate.events.outcomes import Answer
from tidegate.events.verdict import Verdict

ANYWHERE: Final = "unknown"
"""The location of a hold: it is on a table's name, wherever that is."""


class HoldRequest(ReasonedRequest, frozen=True):
    """A person's word on the cleaning of a table."""

    identified_by: ClassVar[tuple[str, ...]] = ("table", "caused_by", "source")

    location: Path = ANYWHERE

    @property
    def asked_why(self) -> str | None:
        """The reason in the request."""
        return self.reason


class CleaningHoldRequested(HoldRequest, frozen=True):
    """Clean nothing of the table until the hold is removed.

    A second hold replaces the first: a table has one or none.
    """


class CleaningHoldRemovalRequested(HoldRequest, frozen=True):
    """Clean the table again, and what was asked for meanwhile."""


class CleaningHeld(Answer, frozen=True):
    """The table is held: no cleaning of it is under way, and none is issued."""

    means: ClassVar[Verdict] = Verdict.DONE


class CleaningHoldRemoved(Answer, frozen=True):
    """The table is not held any more; `released` vacuums are cleaned now."""

    means: ClassVar[Verdict] = Verdict.DONE

    released: Count


class CleaningDeferred(Answer, frozen=True):
    """A released cleaning can't be done now: it is released again later.

    The second source contradicts the event (`reason` is `not-confirmed`, `message` has both
    statements), or did not answer (`second-source-away`): the cleaning is released again after
    `retry_after_ms`. It repeats the command for that. Directories that went before the
    contradiction arose stay removed.
    """

    reason: Text
    message: Message
    retry_after_ms: Count
    kind: VacuumKind
    partition: Text | None = None
    directories: tuple[DirectoryName, ...] = Field(min_length=1, max_length=MAX_DIRECTORIES)
    min_write_id: Id
    max_write_id: Id
    valid_write_ids: Snapshot
    own_transaction_id: Id | None = None
    after_expiry: bool = False
    last_lock_id: Id | None = None
    last_transaction_id: Id | None = None
    vacuum: Text
