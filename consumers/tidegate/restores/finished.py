"""After a restore: remove its rollbacks, and recognise a completed restore."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from tidegate.hudi import (
    Action,
    Instant,
    InstantState,
    RestoreMetadata,
    RestorePlanFile,
    RollbackPlan,
)
from tidegate.hudi_reader import HudiTable
from tidegate.restores.checks import is_abandoned_savepoint
from tidegate.restores.metadata_table import MetadataTableRemoval
from tidegate.restores.removal_record import RemovalRecord
from tidegate.storage import NotFound
from tidegate.tables.hudi import TimelineWriter


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
        and (rollback.timestamp < metadata.started or _is_of(own, plan_of_rollback(now, rollback)))
    }
    files = [f for f in now.files if f.action is Action.ROLLBACK and f.timestamp in gone]
    files += [
        f
        for f in now.timeline.of_action(Action.SAVEPOINT)
        if f.timestamp > savepoint and is_abandoned_savepoint(now.timeline, f)
    ]
    # the requested file last: after a crash it still shows the instant of this rollback
    writer.remove(sorted(files, key=lambda f: f.state, reverse=True))
    MetadataTableRemoval(writer.warehouse, now.location, metadata.started).discard_remains()
    RemovalRecord(writer.warehouse, now.location, metadata.started).discard()


def plan_of_rollback(table: HudiTable, rollback: Instant) -> RollbackPlan | None:
    """The plan of a rollback on the timeline; None if it has no plan.

    A rollback has no plan if two processes ran the same restore, and the slower one continued a
    rollback that the faster one had already removed.

    Raises:
        FormatError: the plan can't be read.
    """
    requested = replace(rollback, state=InstantState.REQUESTED, completion=None)
    try:
        return RollbackPlan.decode(table.read(requested))
    except NotFound:
        return None


def _is_of(targets: AbstractSet[str], plan: RollbackPlan | None) -> bool:
    return plan is None or plan.target.timestamp in targets
