"""Recognising a request that was heard before: a savepoint that was removed stays removed.

Also a request without an instant means the newest commit of when it was first heard. One that was
rejected left nothing on the table, and is looked at anew: a savepoint destroys nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from tidegate.events import SavepointCreated, SavepointRequested
from tidegate.hudi import Action, Timeline
from tidegate.hudi_tables import Answers, forget_before
from tidegate.warehouse import Warehouse

_SHELF: Final = "savepoint-writer"
_REMEMBERED: Final = timedelta(days=90)
"""Commands stay 30 days on their topic: what can't be heard again need not be remembered."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The answers that a table keeps for one request."""

    answers: Answers
    command: SavepointRequested

    @classmethod
    def of(cls, warehouse: Warehouse, location: str, command: SavepointRequested) -> Self:
        """Look on the shelf of the request's own day: a table may get a savepoint every minute."""
        day = command.occurred_at.astimezone(UTC).date().isoformat()
        return cls(Answers(warehouse, location, f"{_SHELF}/{day}"), command)

    def given(self) -> SavepointCreated | None:
        """The answer that was given, if one was.

        Raises:
            FormatError: it can't be read.
        """
        kept = self.answers.given(self.command.event_id)
        return kept if isinstance(kept, SavepointCreated) else None

    def keep(self, outcome: SavepointCreated, now: datetime) -> None:
        """Keep an answer, and forget those of commands that can't be heard any more."""
        answers = self.answers
        answers.keep(self.command.event_id, outcome)
        oldest = (now - _REMEMBERED).astimezone(UTC).date()
        forget_before(answers.warehouse, answers.location, _SHELF, oldest)


def was_removed(timeline: Timeline, created: SavepointCreated) -> bool:
    """Whether a savepoint that was created is gone: a crash leaves at least its inflight file."""
    there = timeline.of_action(Action.SAVEPOINT)
    return all(each.timestamp != created.instant for each in there)
