"""The end of a restore: clearing up after it, and recognising one that is done.

A restore that is done and asked for again is answered, not repeated.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from tidegate.hudi import (
    Action,
    Instant,
    RestoreMetadata,
    RestorePlanFile,
    RollbackPlan,
    State,
)
from tidegate.hudi_reader import HudiTable
from tidegate.hudi_tables import TimelineWriter
from tidegate.storage import NotFound


def finished_restore(table: HudiTable, savepoint: str) -> RestoreMetadata | None:
    """The last completed restore to this savepoint, if nothing was written since.

    Raises:
        FormatError: its files can't be read.
        NotFound: they went away in between.
    """
    timeline = table.timeline
    commit = timeline.completed_write(savepoint)
    if commit is None or savepoint not in timeline.savepoints or timeline.pending_restores:
        return None
    if timeline.completed_after(commit) or timeline.last_completed_write() != commit:
        return None
    for restore in reversed(timeline.of_action(Action.RESTORE, State.COMPLETED)):
        requested = replace(restore, state=State.REQUESTED, completion=None)
        if RestorePlanFile.decode(table.read(requested)).savepoint == savepoint:
            return RestoreMetadata.decode(table.read(restore))
    return None


def trim(writer: TimelineWriter, savepoint: str, metadata: RestoreMetadata) -> None:
    """Remove the rollbacks after the savepoint that are older than a completed restore or its own.

    Left there they would tell Hudi of rollbacks of instants that no timeline knows. Rollbacks that
    a writer made after the restore stay.
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
    # the requested file last: it says whose rollback this is, should we die in between
    writer.remove(sorted(files, key=lambda f: f.state, reverse=True))


def plan_of_rollback(table: HudiTable, rollback: Instant) -> RollbackPlan | None:
    """What a rollback on the timeline rolls back.

    None where it has no plan: of two processes that ran one restore, the slower went on with a
    rollback that the faster had cleared away.

    Raises:
        FormatError: its plan can't be read.
    """
    requested = replace(rollback, state=State.REQUESTED, completion=None)
    try:
        return RollbackPlan.decode(table.read(requested))
    except NotFound:
        return None


def _is_of(targets: AbstractSet[str], plan: RollbackPlan | None) -> bool:
    return plan is None or plan.target.timestamp in targets
