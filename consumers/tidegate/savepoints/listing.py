"""The savepoints of a table, read from its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from tidegate.errors import ConfigError
from tidegate.events import SavepointMark
from tidegate.hudi.instant import Action, InstantState, is_instant
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader.table import HudiTable
from tidegate.savepoints.further_requests import holder_of
from tidegate.savepoints.lookup import made_at, pinned_by, superseded_files
from tidegate.savepoints.retention import kept_until
from tidegate.savepoints.rules import SavepointRule
from tidegate.savepoints.timeline_view import savepoint_of
from tidegate.storage import ParallelMap
from tidegate.tables.hudi import open_table
from tidegate.tables.warehouse import Warehouse

_NAMED: Final = 5
"""How many savepoints an error names."""
_COLUMNS: Final = (
    *("savepoint", "state", "requested_by", "at", "age", "policy", "tiers", "unowned", "kept_for"),
    *("expires", "files", "pinned_files", "pinned_bytes", "comment"),
)
_RELATIVE: Final = re.compile(r"latest(?:~([0-9]{1,6}))?")


def savepoints_of(
    warehouse: Warehouse,
    location: str,
    rule: SavepointRule | None = None,
    listing: ParallelMap | None = None,
) -> Iterator[dict[str, Any]]:
    """The savepoints of a table, oldest first, as `tidegate savepoints list` prints them.

    Until a savepoint is completed, only its instant and state are known. `policy` and `tiers` are
    those of its mark. `unowned` says that a policy made it that the rule does not own: it stays
    until a person acts. `kept_for` is a person who requested it, too: no policy removes it before
    `expires`. With `listing`, there are also the files that each pins.

    Raises:
        Refused: the table is outside the warehouse, can't be read, or is unsupported.
        FormatError: a savepoint's file can't be read.
        NotFound: a savepoint was removed meanwhile.
    """
    table = open_table(warehouse, location)
    listed = superseded_files(table, listing) if listing else None
    columns = [name for name in _COLUMNS if listed is not None or not name.startswith("pinned")]
    for instant in table.timeline.of_action(Action.SAVEPOINT):
        row: dict[str, Any] = dict.fromkeys(columns)
        state = instant.state.name.lower()
        row |= {"savepoint": instant.timestamp, "state": state, "unowned": False}
        if instant.state is InstantState.COMPLETED:
            metadata = SavepointMetadata.decode(table.read(instant))
            row |= _described(table, instant.timestamp, metadata, rule)
            if listed is not None:
                pinned = pinned_by(metadata, listed)
                row |= {"pinned_files": len(pinned), "pinned_bytes": sum(pinned.values())}
        yield row


def _described(
    table: HudiTable, instant: str, metadata: SavepointMetadata, rule: SavepointRule | None
) -> dict[str, object]:
    mark, comment = SavepointMark.parse(metadata.comment)
    policy = mark.policy if mark else None
    expires = kept_until(rule, savepoint_of(table, instant, metadata)) if mark else None
    request = holder_of(table.storage, table.location, instant, datetime.now(UTC))
    if request is not None and expires is not None:
        expires = request.until and max(expires, request.until)
    return {
        "requested_by": metadata.by,
        "at": made_at(metadata),
        "policy": policy,
        "tiers": ",".join(mark.tiers) if mark and mark.tiers else None,
        "unowned": policy is not None and not (rule is not None and rule.owns(policy)),
        "kept_for": request.by if request else None,
        "expires": expires,
        "files": metadata.file_count,
        "comment": comment,
    }


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
