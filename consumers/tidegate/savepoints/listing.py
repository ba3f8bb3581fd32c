"""The savepoints that a table has, as its own timeline says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import ConfigError
from tidegate.hudi import Action, InstantState, SavepointMetadata
from tidegate.tables.hudi import open_table
from tidegate.tables.warehouse import Warehouse

_RELATIVE: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")


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


def chosen_savepoint(warehouse: Warehouse, location: str, wanted: str) -> str:
    """The instant of a savepoint that is named, or counted back from the newest: latest, latest~1.

    An instant is returned as it is, whether there is such a savepoint or not.

    Raises:
        ConfigError: the table has not so many completed savepoints.
        Refused: the table is not where it may be, can't be read, or is unsupported.
    """
    found = _RELATIVE.fullmatch(wanted)
    if found is None:
        return wanted
    timeline = open_table(warehouse, location).timeline
    completed = timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    back = int(found[1] or 0)
    if back >= len(completed):
        raise ConfigError(f"{location} has {len(completed)} completed savepoints: no {wanted}")
    return completed[-1 - back].timestamp
