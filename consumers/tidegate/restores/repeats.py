"""Recognise a request that has begun, and a completed restore; end one that is complete.

No request ever restores a table twice.

A task may be repeated after its restore: the worker died before it recorded the task's outcome, or
a coordinator has lost its rows. Carried out again, it would destroy later writes. So a record on
the table names the instant at which the restore of a request began. It stays there. The outcome
follows from the timeline: Hudi never archives a restore.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tidegate.bounded_json import MAX_SMALL
from tidegate.errors import FormatError
from tidegate.events import RestoreRequested, derived_id
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action, Instant, InstantState, is_instant
from tidegate.hudi.rollback import RestoreMetadata, RestorePlanFile, rollback_target
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.checks import is_abandoned_savepoint
from tidegate.restores.context import RestoreContext
from tidegate.restores.metadata_table import discard_remains
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


def previous_restore(
    context: RestoreContext, table: HudiTable, command: RestoreRequested, *, by_hudi: bool
) -> RestoreMetadata | None:
    """The restore of a request that was carried out before; None: carry it out, or resume it.

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
    return done


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


def finished_restore(table: HudiTable, savepoint: str) -> RestoreMetadata | None:
    """The last completed restore to this savepoint, if nothing was written since.

    Raises:
        FormatError: a file of the restore can't be read.
        NotFound: a file of the restore was removed meanwhile.
    """
    timeline = table.timeline
    commit = timeline.completed_write(savepoint)
    if commit is None or savepoint not in timeline.savepoints or timeline.pending_restores:
        return None
    if table.writes_after(commit) or timeline.last_completed_write() != commit:
        return None
    for restore in reversed(timeline.of_action(Action.RESTORE, InstantState.COMPLETED)):
        if savepoint_of(table, restore) == savepoint:
            return RestoreMetadata.decode(table.read(restore))
    return None


def savepoint_of(table: HudiTable, restore: Instant) -> str | None:
    """The savepoint of a restore on the timeline.

    Raises:
        FormatError: the restore's plan can't be read.
        NotFound: the plan was removed meanwhile.
    """
    requested = replace(restore, state=InstantState.REQUESTED, completion=None)
    return RestorePlanFile.decode(table.read(requested)).savepoint


def trim(writer: TimelineWriter, savepoint: str, metadata: RestoreMetadata) -> None:
    """Remove the rollbacks and abandoned savepoints after the savepoint of a completed restore.

    These are the restore's own rollbacks, older ones, and abandoned inflight savepoints. If they
    stayed, Hudi would find rollbacks of instants that are not on a timeline. Rollbacks that a
    writer made after the restore stay.
    """
    now = writer.table.reloaded()
    own = {target.timestamp for target in metadata.instants}
    gone = {
        rollback.timestamp
        for rollback in now.timeline.of_action(Action.ROLLBACK)
        if savepoint < rollback.timestamp
        and (rollback.timestamp < metadata.started or _is_of(own, now, rollback))
    }
    files = [f for f in now.files if f.action is Action.ROLLBACK and f.timestamp in gone]
    files += [
        f
        for f in now.timeline.of_action(Action.SAVEPOINT)
        if f.timestamp > savepoint and is_abandoned_savepoint(now.timeline, f)
    ]
    # the requested file last: after a crash it still shows the instant of this rollback
    writer.remove(sorted(files, key=lambda f: f.state, reverse=True))
    discard_remains(writer.warehouse, now.location, metadata.started)


def _is_of(targets: AbstractSet[str], table: HudiTable, rollback: Instant) -> bool:
    """Whether a rollback is of one of these instants, or has no plan.

    A rollback has no plan if two processes ran the same restore, and the slower one continued a
    rollback that the faster one had already removed.
    """
    requested = replace(rollback, state=InstantState.REQUESTED, completion=None)
    try:
        return rollback_target(table.read(requested)).timestamp in targets
    except NotFound:
        return True
