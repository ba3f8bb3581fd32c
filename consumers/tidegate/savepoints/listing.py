"""The savepoints that a table has, as its own timeline says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events import SavepointMark
from tidegate.hudi import Action, InstantState, SavepointMetadata
from tidegate.savepoints.pins import made_at, newest_files
from tidegate.savepoints.retention import expires_at
from tidegate.savepoints.rules import PolicyRule
from tidegate.storage import ParallelMap
from tidegate.tables.hudi import open_table
from tidegate.tables.warehouse import Warehouse

_RELATIVE: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class ListedSavepoint:
    """A savepoint. One that is not completed has no metadata yet.

    What its mark says of it is None where it has none; what it pins, where that was not asked for.
    """

    instant: str
    state: str
    by: str | None = None
    at: datetime | None = None
    files: int | None = None
    comment: str | None = None
    mark: SavepointMark | None = None
    pinned_files: int | None = None
    pinned_bytes: int | None = None

    def expires_at(self, rule: PolicyRule | None) -> datetime | None:
        """When its lifetime ends by the table's policy; None: it has none, or nobody knows."""
        if self.mark is None:
            return None
        return expires_at(rule, _Aged(self.instant, self.mark, self.at or self.mark.decided_at))


@dataclass(frozen=True, slots=True)
class _Aged:
    """A savepoint as the rules of retention see it."""

    instant: str
    mark: SavepointMark
    made_at: datetime

    @property
    def policy(self) -> str | None:
        return self.mark.policy

    @property
    def tiers(self) -> tuple[str, ...]:
        return self.mark.tiers

    @property
    def lifetime(self) -> timedelta | None:
        return self.mark.lifetime

    @property
    def since(self) -> datetime:
        return self.mark.decided_at if self.mark.policy else self.made_at


def savepoints_of(
    warehouse: Warehouse, location: str, listing: ParallelMap | None = None
) -> Iterator[ListedSavepoint]:
    """The savepoints of a table, oldest first; with what each pins, if the table may be listed.

    Raises:
        Refused: the table is not where it may be, can't be read, or is unsupported.
        FormatError: a savepoint's file can't be read.
        NotFound: one was removed meanwhile.
    """
    table = open_table(warehouse, location)
    listed = newest_files(table, listing) if listing else None
    for instant in table.timeline.of_action(Action.SAVEPOINT):
        state = instant.state.name.lower()
        if instant.state is not InstantState.COMPLETED:
            yield ListedSavepoint(instant.timestamp, state)
            continue
        saved = SavepointMetadata.decode(table.read(instant))
        mark, comment = SavepointMark.parse(saved.comment)
        pinned = listed.pinned(saved.files) if listed else None
        yield ListedSavepoint(
            instant.timestamp,
            state,
            saved.by,
            made_at(saved),
            saved.file_count,
            comment,
            mark,
            None if pinned is None else len(pinned),
            None if pinned is None else sum(pinned.values()),
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
