"""Recognise a request that has begun: no request ever restores a table twice.

A task may be repeated after its restore: the worker died before it recorded the task's outcome, or
a coordinator has lost its rows. Carried out again, it would destroy later writes. So the table
records, for ever, at which instant the restore of a request began. Its outcome follows from the
timeline: Hudi never archives a restore.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidegate.bounded_json import MAX_SMALL
from tidegate.errors import FormatError
from tidegate.events import RestoreCompleted, RestoreRequested, derived_id
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, InstantState, RestoreMetadata, is_instant
from tidegate.hudi_reader import HudiTable
from tidegate.restores.context import RestoreContext
from tidegate.restores.finished import finished_restore, savepoint_of, trim
from tidegate.storage import NotFound, join
from tidegate.tables.claim import HUDI
from tidegate.tables.hudi import TimelineWriter
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_FOLDER: Final = f"{HUDI}/restorer"


def started_at(warehouse: Warehouse, location: str, request_id: str) -> str | None:
    """The instant of the restore that began for a request; None: the request has not begun.

    Args:
        warehouse: The files that may be read.
        location: The table's base path.
        request_id: The id of the RestoreRequested.

    Raises:
        ConfinementError: the location is outside the roots, or the record is reached by a link.
        FormatError: the record is damaged.
    """
    path = _path_of(warehouse, location, request_id)
    try:
        instant = warehouse.read(path, MAX_SMALL).decode("latin-1")
    except NotFound:
        return None
    if not is_instant(instant):
        raise FormatError(f"{path} does not contain an instant")
    return instant


def record_start(warehouse: Warehouse, location: str, request_id: str, instant: str) -> None:
    """Record the instant at which the restore of a request is on the timeline."""
    with suppress(AlreadyExists):
        warehouse.create(_path_of(warehouse, location, request_id), instant.encode())


def _path_of(warehouse: Warehouse, location: str, request_id: str) -> str:
    # a request's id may be any text, so its hash is the file name
    name = f"{derived_id('answer', request_id)}.begun"
    return warehouse.roots.check(join(location, _FOLDER, name))


def previous_outcome(
    context: RestoreContext,
    table: HudiTable,
    command: RestoreRequested,
    completed: Callable[[RestoreMetadata], RestoreCompleted],
    *,
    by_hudi: bool,
) -> RestoreCompleted | None:
    """The outcome of a request that was carried out before; None: carry it out, or resume it.

    Raises:
        Refused: the restore began but is no longer on the timeline; or Hudi completed it, and a
            write that had begun earlier stayed.
        FormatError: the record of the request's restore, or a file of the timeline, is damaged.
    """
    begun = started_at(context.warehouse, table.location, command.event_id)
    if begun is None:
        done = finished_restore(table, command.savepoint)
        if done is None:
            return None
        record_start(context.warehouse, table.location, command.event_id, done.started)
    elif begun in {pending.timestamp for pending in table.timeline.pending_restores}:
        return None
    else:
        done = _completed_at(table, begun, command.savepoint)
        if by_hudi:  # Tidegate's own restores are checked before they complete
            _check_end(table, command.savepoint, done)
    trim(TimelineWriter(context.warehouse, table, context.clock), command.savepoint, done)
    return completed(done)


def _check_end(table: HudiTable, savepoint: str, done: RestoreMetadata) -> None:
    """Make the final check of Tidegate's own restores on a restore that Hudi completed."""
    for write in table.timeline.completed_writes:
        if savepoint < write.timestamp < done.started:
            raise Refused(
                Reason.LATER_COMMIT_STAYS,
                f"commit {write.timestamp} completed while restore {done.started} ran, and was not"
                " rolled back: review a new plan, then send a new request",
            )


def _completed_at(table: HudiTable, instant: str, savepoint: str) -> RestoreMetadata:
    for restore in table.timeline.of_action(Action.RESTORE, InstantState.COMPLETED):
        if restore.timestamp == instant and savepoint_of(table, restore) == savepoint:
            return RestoreMetadata.decode(table.read(restore))
    raise Refused(
        Reason.RESTORE_ABANDONED,
        f"restore {instant}, which began for this request, is no longer on the timeline",
    )
