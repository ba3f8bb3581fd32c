"""The savepoints of a table, read from its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import ConfigError
from tidegate.events import SavepointMark
from tidegate.hudi.instant import Action, InstantState, is_instant
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.savepoints.further_requests import holder_of
from tidegate.savepoints.lookup import made_at, pinned_by, superseded_files
from tidegate.savepoints.retention import Savepoint, kept_until
from tidegate.savepoints.rules import SavepointRule
from tidegate.savepoints.timeline_view import savepoint_of
from tidegate.storage import ParallelMap
from tidegate.tables.hudi import open_table
from tidegate.tables.warehouse import Warehouse

_NAMED: Final = 5
"""How many savepoints an error names."""
_RELATIVE: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True)
class _ListedSavepoint:
    """A savepoint. Until it is completed, it has no metadata.

    Without a mark, `mark` and `saved` are None. Unless the table was listed, the pinned figures
    are None.
    """

    instant: str
    state: str
    by: str | None = None
    at: datetime | None = None
    files: int | None = None
    comment: str | None = None
    mark: SavepointMark | None = None
    saved: Savepoint | None = None
    kept_for: str | None = None
    """A person who requested it, too: no policy removes it before `kept_until`."""
    kept_until: datetime | None = None
    """None, if a person requested it, too: until a person removes it."""
    pinned_files: int | None = None
    pinned_bytes: int | None = None

    def expires_at(self, rule: SavepointRule | None) -> datetime | None:
        """When the last of its lifetimes ends; None: it has none, or it is unknown."""
        end = None if self.saved is None else kept_until(rule, self.saved)
        if self.kept_for is None or end is None:
            return end
        return self.kept_until and max(end, self.kept_until)

    def is_unowned(self, rule: SavepointRule | None) -> bool:
        """Whether a policy made it that this rule does not own: it stays until a person acts."""
        policy = self.mark.policy if self.mark else None
        return policy is not None and not (rule is not None and rule.owns(policy))


def savepoints_of(
    warehouse: Warehouse, location: str, listing: ParallelMap | None = None
) -> Iterator[_ListedSavepoint]:
    """The savepoints of a table, oldest first; with `listing`, also the files that each pins.

    Raises:
        Refused: the table is outside the warehouse, can't be read, or is unsupported.
        FormatError: a savepoint's file can't be read.
        NotFound: a savepoint was removed meanwhile.
    """
    table = open_table(warehouse, location)
    listed = superseded_files(table, listing) if listing else None
    for instant in table.timeline.of_action(Action.SAVEPOINT):
        state = instant.state.name.lower()
        if instant.state is not InstantState.COMPLETED:
            yield _ListedSavepoint(instant.timestamp, state)
            continue
        saved = SavepointMetadata.decode(table.read(instant))
        mark, comment = SavepointMark.parse(saved.comment)
        pinned = None if listed is None else pinned_by(saved, listed)
        request = holder_of(table.storage, table.location, instant.timestamp, datetime.now(UTC))
        yield _ListedSavepoint(
            instant.timestamp,
            state,
            saved.by,
            made_at(saved),
            saved.file_count,
            comment,
            mark,
            savepoint_of(table, instant.timestamp, saved) if mark else None,
            request.by if request else None,
            request.until if request else None,
            None if pinned is None else len(pinned),
            None if pinned is None else sum(pinned.values()),
        )


def chosen_savepoint(warehouse: Warehouse, location: str, wanted: str) -> str:
    """The instant of a savepoint that is given as an instant, `latest`, `latest~1` and so on.

    An instant is returned unchanged, whether or not it has a savepoint.

    Raises:
        ConfigError: it has another form, or the table has fewer completed savepoints.
        Refused: the table is outside the warehouse, can't be read, or is unsupported.
    """
    if is_instant(wanted):
        return wanted
    timeline = open_table(warehouse, location).timeline
    completed = timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    newest = [instant.timestamp for instant in reversed(completed)]
    if not newest:
        raise ConfigError(f"{location} has no savepoints")
    if (found := _RELATIVE.fullmatch(wanted)) and (back := int(found[1] or 0)) < len(newest):
        return newest[back]
    raise ConfigError(
        f"{location} has no savepoint {wanted}: give an instant, latest, or latest~1 for the one"
        f" before it; its newest savepoints: {', '.join(newest[:_NAMED])}"
    )
