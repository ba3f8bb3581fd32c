"""Checks of an event before it is sent, beyond the form of its fields.

The cleaner would refuse an inconsistent vacuum only after its last reader has ended, perhaps days
later. With this check its publisher gets the error at once.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Final

from tidegate.errors import FormatError, InvalidEventError
from tidegate.events import CommitCompleted, Event, VacuumFinished, VacuumKind
from tidegate.hive.compaction import Compaction, InconsistentCompaction
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hudi.instant import Action

_STRAY: Final = frozenset({"", ".", ".."})
_WRITES: Final = (
    Action.COMMIT,
    Action.DELTA_COMMIT,
    Action.REPLACE_COMMIT,
    Action.COMPACTION,
    Action.LOG_COMPACTION,
    Action.CLUSTERING,
)
"""The actions of writes, under their names on a timeline and in a table service's plan."""
_SIGNS: Final = re.compile(r"[\\\x00-\x1f]")


def check_publishable(event: Event) -> None:
    """Check that the fields of an event are consistent.

    Raises:
        InvalidEventError: a service would refuse it; it says why.
    """
    try:
        event.occurred_at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidEventError("occurred_at: in UTC the year is before 1 or after 9999") from error
    if isinstance(event, CommitCompleted) and event.action not in _WRITES:
        raise InvalidEventError(
            f"invalid CommitCompleted: action: {event.action!r} is not one of {', '.join(_WRITES)};"
            " upsert, insert and the like are an operation"
        )
    if isinstance(event, VacuumFinished):
        try:
            _check_vacuum(event)
        except (FormatError, InconsistentCompaction) as error:
            raise InvalidEventError(f"invalid VacuumFinished: {error}") from error


def _check_vacuum(event: VacuumFinished) -> None:
    snapshot = ValidWriteIds.parse(event.valid_write_ids)
    table = snapshot.table.lower()
    if not f".{event.table}".endswith(f".{table}"):
        raise InconsistentCompaction(f"the snapshot is of the table {table}, not of {event.table}")
    Compaction.of(
        event.directories,
        major=event.kind is VacuumKind.MAJOR,
        min_write_id=event.min_write_id,
        max_write_id=event.max_write_id,
        write_ids=snapshot,
        own_txn=event.own_transaction_id,
    )
    partition = event.partition
    if partition is not None and (_STRAY & set(partition.split("/")) or _SIGNS.search(partition)):
        raise InconsistentCompaction(f"the partition {partition!r} is not a path below the table")
