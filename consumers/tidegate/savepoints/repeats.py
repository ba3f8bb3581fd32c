"""Recognise a repeated request, so that a removed savepoint stays removed.

A request without an instant means the newest commit at its first execution. A rejected request left
nothing on the table and is checked again: a savepoint destroys nothing.
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
"""Commands stay on their topic for 30 days, so older ones can't be consumed again."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The record of one request next to the table's timeline."""

    store: OutcomeStore
    command: SavepointRequested

    @classmethod
    def of(cls, warehouse: Warehouse, location: str, command: SavepointRequested) -> Self:
        """Use one folder per day of requests: a table may get a savepoint every minute."""
        day = command.occurred_at.astimezone(UTC).date().isoformat()
        return cls(OutcomeStore(warehouse, location, f"{_FOLDER}/{day}"), command)

    def outcome(self) -> SavepointCreated | None:
        """The outcome of an earlier attempt, if there is one.

        Raises:
            FormatError: the outcome can't be read.
        """
        stored = self.store.outcome_of(self.command.event_id)
        return stored if isinstance(stored, SavepointCreated) else None

    def put(self, outcome: SavepointCreated, now: datetime) -> None:
        """Store an outcome, and remove the outcomes of commands that can't be consumed again."""
        store = self.store
        store.put(self.command.event_id, outcome)
        oldest = (now - _REMEMBERED).astimezone(UTC).date()
        remove_before(store.warehouse, store.location, _FOLDER, oldest)


def was_removed(timeline: Timeline, created: SavepointCreated) -> bool:
    """Whether a created savepoint is gone; after a crash at least its inflight file exists."""
    savepoints = timeline.of_action(Action.SAVEPOINT)
    return all(savepoint.timestamp != created.instant for savepoint in savepoints)
