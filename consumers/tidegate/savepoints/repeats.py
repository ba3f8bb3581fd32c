"""Recognising a repeated request: a savepoint that was removed stays removed.

A request without an instant means the newest commit at the time when it was first carried out. A
rejected request left nothing on the table and is checked anew: a savepoint destroys nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from tidegate.events import SavepointCreated, SavepointRequested
from tidegate.hudi import Action, Timeline
from tidegate.tables.hudi import OutcomeStore, remove_before
from tidegate.tables.warehouse import Warehouse

_FOLDER: Final = "savepoint-writer"
_REMEMBERED: Final = timedelta(days=90)
"""Commands stay 30 days on their topic: what can't come again need not be remembered."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What a table records about one request."""

    store: OutcomeStore
    command: SavepointRequested

    @classmethod
    def of(cls, warehouse: Warehouse, location: str, command: SavepointRequested) -> Self:
        """Use the folder of the request's own day: a table may get a savepoint every minute."""
        day = command.occurred_at.astimezone(UTC).date().isoformat()
        return cls(OutcomeStore(warehouse, location, f"{_FOLDER}/{day}"), command)

    def outcome(self) -> SavepointCreated | None:
        """The outcome of an earlier attempt.

        Raises:
            FormatError: it can't be read.
        """
        stored = self.store.outcome_of(self.command.event_id)
        return stored if isinstance(stored, SavepointCreated) else None

    def put(self, outcome: SavepointCreated, now: datetime) -> None:
        """Store an outcome, and remove those of commands that can't come again."""
        store = self.store
        store.put(self.command.event_id, outcome)
        oldest = (now - _REMEMBERED).astimezone(UTC).date()
        remove_before(store.warehouse, store.location, _FOLDER, oldest)


def without_review(created: SavepointCreated) -> SavepointCreated:
    """An earlier outcome as it is said again: the savepoints that it lists are those of then.

    Who remembered them as those of now would forget every later one.
    """
    nothing = {"reviewed": False, "savepoints": (), "pinned_files": None, "pinned_bytes": None}
    return SavepointCreated.model_validate(created.model_dump() | nothing)


def was_removed(timeline: Timeline, created: SavepointCreated) -> bool:
    """Whether a savepoint that was created is gone: a crash leaves at least its inflight file."""
    savepoints = timeline.of_action(Action.SAVEPOINT)
    return all(savepoint.timestamp != created.instant for savepoint in savepoints)
