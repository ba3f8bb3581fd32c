"""The savepoints that a table has, as its own timeline says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.hudi import Action, InstantState, SavepointMetadata
from tidegate.tables.hudi import open_table
from tidegate.tables.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class ListedSavepoint:
    """A savepoint. One that is not completed has no metadata yet."""

    instant: str
    state: str
    by: str | None = None
    at: datetime | None = None
    files: int | None = None
    comment: str | None = None


def savepoints_of(warehouse: Warehouse, location: str) -> Iterator[ListedSavepoint]:
    """The savepoints of a table, oldest first.

    Raises:
        Refused: the table is not where it may be, can't be read, or is unsupported.
        FormatError: a savepoint's file can't be read.
        NotFound: one was removed meanwhile.
    """
    table = open_table(warehouse, location)
    for instant in table.timeline.of_action(Action.SAVEPOINT):
        state = instant.state.name.lower()
        if instant.state is not InstantState.COMPLETED:
            yield ListedSavepoint(instant.timestamp, state)
            continue
        saved = SavepointMetadata.decode(table.read(instant))
        at = datetime.fromtimestamp(saved.at_ms / 1000, UTC)
        yield ListedSavepoint(
            instant.timestamp, state, saved.by, at, saved.file_count, saved.comment
        )
