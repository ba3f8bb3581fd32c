"""From a table to a plan: everything read, everything checked, nothing touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from tidegate.errors import ConfinementError, FormatError, TransientError
from tidegate.fanout import FanOut, InPlace
from tidegate.hudi import (
    Action,
    CommitMetadata,
    Instant,
    RestorePlanFile,
    SavepointMetadata,
    State,
)
from tidegate.hudi_reader import HudiTable, list_partitions
from tidegate.hudi_tables import open_table
from tidegate.refusals import Refusal, Refused, granted
from tidegate.restores.checks import check_files, check_timeline, find_savepoint
from tidegate.restores.liveness import RestoreSettings, check_writers
from tidegate.restores.plan import MARKERS, METADATA_TABLE, PlannedRestore, Step, plan_of, plan_step
from tidegate.restores.tools import Tools
from tidegate.restores.watching import watch_writers
from tidegate.storage import NotFound, join
from tidegate.warehouse import Warehouse

PLAN_NOTE: Final = "tidegate.plan"
FILES_NOTE: Final = "tidegate.files"
BYTES_NOTE: Final = "tidegate.bytes"
COMMAND_NOTE: Final = "tidegate.command"


def plan_restore(
    warehouse: Warehouse, location: str, savepoint: str, tools: Tools | None = None
) -> PlannedRestore | Refusal:
    """The dry run: what a restore would do now, or why it would be refused. Changes nothing.

    Args:
        warehouse: Its roots decide what may be read at all.
        location: The table's base path.
        savepoint: The instant of the savepoint.
        tools: What to work with; none given: this process alone, and the default settings.

    Raises:
        TransientError: a file went away while it was needed; the next look may go well.
    """
    try:
        table = open_table(warehouse, location)
        return prepare(table, savepoint, tools or _own_tools(warehouse))
    except Refused as refused:
        return refused.refusal
    except FormatError as error:
        return Refusal("unreadable-table", str(error))
    except NotFound as error:
        raise TransientError(f"{error} went away in between") from error


def _own_tools(warehouse: Warehouse) -> Tools:
    return Tools(warehouse, InPlace(), partial(datetime.now, UTC), RestoreSettings())


def prepare(table: HudiTable, savepoint: str, tools: Tools) -> PlannedRestore:
    """Make the plan, or the rest of the plan of a restore that an earlier attempt began.

    Raises:
        Refused: a check said no.
        FormatError: a file of the table can't be read.
        NotFound: a file went away in between.
    """
    commit = granted(find_savepoint(table.timeline, savepoint))
    pending = pending_restore(table, savepoint)
    granted(check_writers(tools.warehouse, table.location, tools.clock(), tools.settings))
    if pending is not None:
        granted(watch_writers(table, tools))
        return _rest_of(table, pending, tools.fan_out)
    later = table.timeline.completed_after(commit)
    granted(check_timeline(table.timeline, commit, later, partial(_is_clustering, table)))
    granted(watch_writers(table, tools))
    steps = _steps(table, later, tools.fan_out, _kept_files(table, savepoint))
    _check_roots(tools.warehouse, table.location, steps)
    return plan_of(savepoint, steps)


def _check_roots(warehouse: Warehouse, location: str, steps: Sequence[Step]) -> None:
    paths = [METADATA_TABLE, MARKERS, *(file.path for step in steps for file in step.files)]
    try:
        for path in paths:
            warehouse.roots.check(join(location, path))
    except ConfinementError as error:
        raise Refused("unsafe-path", str(error)) from error


def pending_restore(table: HudiTable, savepoint: str) -> tuple[Instant, RestorePlanFile] | None:
    """The restore to this savepoint that began and did not complete.

    Raises:
        Refused: a restore to another savepoint is pending.
    """
    found: tuple[Instant, RestorePlanFile] | None = None
    for instant in table.timeline.pending_restores:
        plan = RestorePlanFile.decode(table.read(replace(instant, state=State.REQUESTED)))
        if plan.savepoint != savepoint:
            raise Refused(
                "restore-pending",
                f"restore {instant.timestamp} to {plan.savepoint} has not completed yet",
            )
        found = found or (instant, plan)
    return found


def _rest_of(
    table: HudiTable, pending: tuple[Instant, RestorePlanFile], fan_out: FanOut
) -> PlannedRestore:
    instant, plan = pending
    there = {write.timestamp: write for write in table.timeline.writes}
    left = [there[i.timestamp] for i in plan.instants if i.timestamp in there]
    known = {step.target.timestamp: step for step in _steps(table, left, fan_out, None)}
    steps = tuple(known.get(i.timestamp) or Step(i, ()) for i in plan.instants)
    rest = plan_of(plan.savepoint or "", steps)
    return replace(
        rest,
        resumes=instant.timestamp,
        begun_for=plan.notes.get(COMMAND_NOTE),
        plan_id=plan.notes.get(PLAN_NOTE, rest.plan_id),
        files=int(plan.notes.get(FILES_NOTE, rest.files)),
        bytes=int(plan.notes.get(BYTES_NOTE, rest.bytes)),
    )


def _steps(
    table: HudiTable,
    instants: Sequence[Instant],
    fan_out: FanOut,
    kept: SavepointMetadata | None,
) -> tuple[Step, ...]:
    partitions = list_partitions(table.storage, table.location, fan_out)
    completed = [i for i in instants if i.state is State.COMPLETED]
    read = fan_out.map(partial(HudiTable.read_commit, table), completed)
    commits = dict[Instant, CommitMetadata](zip(completed, read, strict=True))
    steps = tuple(plan_step(i, commits.get(i), partitions) for i in instants)
    if kept is not None:
        granted(check_files(kept, steps, partitions))
    return steps


def _kept_files(table: HudiTable, savepoint: str) -> SavepointMetadata:
    completed = table.timeline.of_action(Action.SAVEPOINT, State.COMPLETED)
    return SavepointMetadata.decode(
        table.read(next(i for i in completed if i.timestamp == savepoint))
    )


def _is_clustering(table: HudiTable, instant: Instant) -> bool:
    """Whether a pending instant is a clustering; layout 1 has them as replacecommits."""
    if instant.action is not Action.REPLACE_COMMIT:
        return instant.action is Action.CLUSTERING
    requested = table.read(replace(instant, state=State.REQUESTED, completion=None))
    return bool(requested) and CommitMetadata.decode(requested).operation == "CLUSTER"
