"""From a table to the plan of a restore: reads and checks everything, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import ConfinementError, FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi.rollback import RestorePlanFile
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader.partitions import list_partitions
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.checks import (
    check_committed,
    check_files,
    check_named_after_writers,
    check_not_built_upon,
    check_overlapping,
    check_timeline,
    find_savepoint,
    overlapping_commits,
)
from tidegate.restores.context import RestoreContext
from tidegate.restores.liveness import check_writers, watch_writers
from tidegate.restores.log_blocks import with_blocks
from tidegate.restores.metadata_table import with_metadata_table
from tidegate.restores.plan import (
    MARKERS,
    METADATA_TABLE,
    PlannedRestore,
    Step,
    files_by_instant,
    plan_of,
    plan_step,
    resume,
)
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.gc_pause import gc_paused
from tidegate.storage import NotFound, ParallelMap, join
from tidegate.storage.parallel import batches_of
from tidegate.tables.hudi import open_table, refusing_unreadable
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse

_CONSISTENT_HASHING: Final = ".hoodie/.bucket_index"
_COMMITS_IN_PARALLEL: Final = 32
"""Minimum of commits for a Spark job: returning their content costs about as much as a read."""
_COMMITS_HELD: Final = 256
"""Maximum of commits whose files are in memory before they are decoded."""


def plan_restore(
    warehouse: Warehouse,
    location: str,
    savepoint: str,
    settings: RestoreSettings | None = None,
    *,
    by_hudi: bool = False,
) -> PlannedRestore:
    """The dry run: the plan of a restore on the current table. Changes nothing.

    Args:
        warehouse: The files that may be read.
        location: The table's base path.
        savepoint: The instant of the savepoint.
        settings: Which locks are checked, how long writes are watched; None: the defaults.
        by_hudi: Whether Hudi's own procedure would carry it out.

    Raises:
        Refused: a restore would now be refused for this reason.
        TransientError: a file was removed while it was being read; try again.
    """
    clock = partial(datetime.now, UTC)
    context = RestoreContext(warehouse, ThreadMap(), clock, settings or RestoreSettings())
    with refusing_unreadable():
        table = open_table(warehouse, location, any_kind=by_hudi)
        return prepare(table, savepoint, context, by_hudi=by_hudi)


def prepare(
    table: HudiTable, savepoint: str, context: RestoreContext, *, by_hudi: bool = False
) -> PlannedRestore:
    """Make the plan, or the rest of the plan of a restore that an earlier attempt began.

    Both go through the same checks: the files of an earlier attempt are not trusted. Writes that
    only Hudi's procedure can roll back are refused unless `by_hudi`.

    Raises:
        Refused: a check failed.
        FormatError: a file of the table can't be read.
        NotFound: a file was removed meanwhile.
    """
    commit = find_savepoint(table.timeline, savepoint)
    pending = pending_restore(table, savepoint)
    check_writers(context.warehouse, table.location, context.clock(), context.settings)
    later = table.writes_after(commit)
    check_timeline(table, commit, later, by_hudi=by_hudi)
    if not by_hudi:
        _check_buckets(table)
    watch_writers(table, context)
    with gc_paused():  # a commit of 100,000 files took a third longer with collections
        kept_files = _kept_files(table, savepoint)
        check_committed(table, savepoint, kept_files)
        steps = _steps(table, later, context.parallel_map, kept_files, by_hudi=by_hudi)
    _check_older(table, commit, later, steps)
    _check_roots(context.warehouse, table.location, steps)
    plan = plan_of(savepoint, steps)
    if pending is not None:
        plan = _resumed(table, plan, pending)
    return with_metadata_table(table.properties, plan, by_hudi=by_hudi)


def _check_buckets(table: HudiTable) -> None:
    """Check that the table has no consistent hashing index."""
    with suppress(NotFound):
        if table.storage.list(join(table.location, _CONSISTENT_HASHING)):
            raise Refused(
                Reason.UNSUPPORTED_TABLE,
                "the table has a consistent hashing index, whose buckets a restore can't undo",
            )


def _check_roots(warehouse: Warehouse, location: str, steps: Sequence[Step]) -> None:
    """Check that every directory with files to remove is inside the roots."""
    folders = {path.rpartition("/")[0] for step in steps for path in step.paths} - {""}
    try:
        for path in (METADATA_TABLE, MARKERS, *sorted(folders)):
            warehouse.roots.check(join(location, path))
    except ConfinementError as error:
        raise Refused(Reason.UNSAFE_PATH, str(error)) from error


def pending_restore(table: HudiTable, savepoint: str) -> tuple[Instant, RestorePlanFile] | None:
    """The pending restore to this savepoint, if there is one.

    Raises:
        Refused: a restore to another savepoint is pending.
    """
    found: tuple[Instant, RestorePlanFile] | None = None
    for instant in table.timeline.pending_restores:
        plan = _pending_plan(table, replace(instant, state=InstantState.REQUESTED))
        if plan.savepoint != savepoint:
            raise Refused(
                Reason.RESTORE_PENDING,
                f"restore {instant.timestamp} to {plan.savepoint} has not completed yet",
            )
        found = found or (instant, plan)
    return found


def _pending_plan(table: HudiTable, requested: Instant) -> RestorePlanFile:
    try:
        return RestorePlanFile.decode(table.read(requested))
    except NotFound as error:
        raise FormatError(
            f"restore {requested.timestamp} is pending, but its plan {table.path_of(requested)} is"
            " missing"
        ) from error


def _resumed(
    table: HudiTable, rest: PlannedRestore, pending: tuple[Instant, RestorePlanFile]
) -> PlannedRestore:
    instant, file = pending
    timeline = table.timeline
    present = {write.timestamp for write in timeline.writes}
    left = {step.target.timestamp for step in rest.steps}
    for target in file.instants:
        if target.timestamp in present - left:
            raise Refused(
                Reason.RESTORE_PENDING,
                f"the pending restore {instant.timestamp} would roll back {target.timestamp}, which"
                f" is not later than savepoint {rest.savepoint}: finish that restore with the tool"
                " that began it",
            )
    completed = {write.timestamp for write in timeline.completed_writes}
    gone = {target.timestamp for target in file.instants} - present
    return resume(rest, instant, file, completed, gone)


def _check_older(
    table: HudiTable, savepoint: Instant, later: Sequence[Instant], steps: Sequence[Step]
) -> None:
    """Check the writes that were requested before the savepointed commit and completed after it."""
    if table.properties.is_merge_on_read:
        overlapping = overlapping_commits(table.timeline, savepoint)
        check_overlapping({i.timestamp: table.read_commit(i) for i in overlapping})
    older = {
        instant.timestamp
        for instant in later
        if instant.state is InstantState.COMPLETED and instant.timestamp < savepoint.timestamp
    }
    if not older:
        return
    rolled_back = {instant.timestamp for instant in later}
    staying = {
        commit.timestamp: table.read_commit(commit)
        for commit in table.timeline.completed_writes
        if commit.timestamp > min(older) and commit.timestamp not in rolled_back
    }
    check_not_built_upon([s for s in steps if s.target.timestamp in older], staying)


def _steps(
    table: HudiTable,
    instants: Sequence[Instant],
    parallel_map: ParallelMap,
    kept: SavepointMetadata,
    *,
    by_hudi: bool,
) -> tuple[Step, ...]:
    partitions = list_partitions(table.storage, table.location, parallel_map)
    completed = [i for i in instants if i.state is InstantState.COMPLETED]
    commit_map = parallel_map if len(completed) >= _COMMITS_IN_PARALLEL else ThreadMap()
    commits = {
        instant: commit
        for batch in batches_of(completed, _COMMITS_HELD)
        for instant, commit in zip(batch, table.read_commits(batch, commit_map), strict=True)
    }
    listed = files_by_instant({i.timestamp for i in instants}, partitions)
    steps = tuple(plan_step(i, commits.get(i), listed.get(i.timestamp, ())) for i in instants)
    is_of_logs = table.properties.is_merge_on_read
    if is_of_logs and table.properties.layout is not Layout.ONE:
        check_named_after_writers({i.timestamp: read for i, read in commits.items()})
    elif is_of_logs and not by_hudi:
        writes = {i: commits.get(i) for i in instants}
        steps = with_blocks(table, steps, writes, partitions, parallel_map)
    check_files(table, kept, steps, partitions)
    return steps


def _kept_files(table: HudiTable, savepoint: str) -> SavepointMetadata:
    found = table.timeline.find(Action.SAVEPOINT, savepoint)
    if found is None:
        raise NotFound(f"savepoint {savepoint}")
    return SavepointMetadata.decode(table.read(found))
