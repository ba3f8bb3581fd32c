"""The fate of Hudi's metadata table in a restore: kept if that is provably right, else dropped.

The metadata table lists the files of every completed write, and may index every record. So the
writes that a restore rolls back are undone there, too. Writes that never began are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidegate.hudi import Instant, InstantState, Layout, TableProperties
from tidegate.hudi.properties import METADATA_PARTITIONS
from tidegate.hudi_reader import HudiTable
from tidegate.restores.metadata_reading import read_metadata_table
from tidegate.restores.metadata_undo import MetadataUndo, Unprovable, plan_undo
from tidegate.restores.plan import METADATA_TABLE, PlannedRestore
from tidegate.storage import join

_KEPT: Final = "kept: it contains nothing that is rolled back"
_UNDONE: Final = "kept: the rolled-back writes are undone in it, too. It has: {partitions}"
_IN_PART: Final = ". Dropped, because built or changed since the savepoint: {dropped}"
_DROPPED: Final = (
    "dropped: {why}. Readers list files until Hudi's next write builds it again, with: {partitions}"
)
_CHANGED: Final = "it was changed while the restore ran, or can't be moved aside"
_OLD: Final = "rolled-back writes can be undone in it only from table version 8 on"
_REMOTE: Final = "it is on an object store, which can't move it aside in one step"
_BEGUN: Final = "another tool or version began the restore, or more writes have to be rolled back"
_LEFT_TO_HUDI: Final = (
    "left to Hudi, whose procedure restores it if possible and otherwise drops it"
)
_FAILS: Final = "Hudi's procedure may fail on a metadata table of this table version"
_SHOWN: Final = 300


def keeps_metadata_table(plan: PlannedRestore, later: Sequence[Instant]) -> bool:
    """Whether the content of the metadata table is the same before and after a restore.

    It is if every instant to roll back was only requested and has no files. A resumed restore may
    already have rolled back others.

    Args:
        plan: The plan of the restore.
        later: The instants that the restore rolls back.
    """
    if plan.resumes is not None:
        return not plan.steps
    never_began = all(instant.state is InstantState.REQUESTED for instant in later)
    return never_began and not any(step.paths for step in plan.steps)


def with_metadata_table(
    table: HudiTable,
    plan: PlannedRestore,
    savepoint: Instant,
    later: Sequence[Instant],
    recorded: str | None,
) -> PlannedRestore:
    """Complete a plan with the fate of the metadata table.

    Args:
        table: The table.
        plan: The plan of the restore.
        savepoint: The savepointed commit.
        later: The instants that the restore rolls back.
        recorded: The `MetadataUndo`, encoded, of the attempt that the plan resumes; None: there is
            none.
    """
    kept = keeps_metadata_table(plan, later)
    is_there = bool(named_partitions(table.properties))
    if kept or not (is_there or recorded):
        message = _KEPT if is_there else None
        return replace(plan, keeps_metadata_table=kept, metadata_table=message)
    resumes = plan.resumes is not None
    try:
        undo = _recorded(plan, recorded) if resumes else _undo(table, savepoint, later)
    except Unprovable as reason:
        return replace(plan, metadata_table=describe_dropped(table.properties, str(reason)))
    return replace(plan, metadata_undo=undo, metadata_table=_describe_undone(undo))


def _undo(table: HudiTable, savepoint: Instant, later: Sequence[Instant]) -> MetadataUndo:
    properties = table.properties
    if properties.layout is not Layout.TWO:
        raise Unprovable(_OLD)
    if not table.storage.can(table.location).renames:
        raise Unprovable(_REMOTE)
    if properties.values.get(METADATA_PARTITIONS[1]):
        raise Unprovable("partitions of it are being built")
    seen = read_metadata_table(table.storage, join(table.location, METADATA_TABLE))
    return plan_undo(seen, table.timeline, savepoint, later, named_partitions(properties))


def _recorded(plan: PlannedRestore, recorded: str | None) -> MetadataUndo:
    """The undo that the first attempt recorded, if it covers all remaining instants."""
    undo = MetadataUndo.decode(recorded) if recorded else None
    if undo is None or not {target.timestamp for target in plan.targets} <= set(undo.gone):
        raise Unprovable(_BEGUN)
    return undo


def _describe_undone(undo: MetadataUndo) -> str:
    message = _UNDONE.format(partitions=", ".join(undo.kept)[:_SHOWN])
    if undo.dropped:
        message += _IN_PART.format(dropped=", ".join(undo.dropped)[:_SHOWN])
    return message


def describe_changed(undo: MetadataUndo) -> str:
    """The message for a metadata table that could not be kept after all."""
    partitions = ", ".join(sorted({*undo.kept, *undo.dropped}))
    return _DROPPED.format(why=_CHANGED, partitions=partitions[:_SHOWN])


def describe_dropped(properties: TableProperties, why: str) -> str | None:
    """The message that the metadata table is dropped, and why; None if there is none."""
    partitions = ", ".join(named_partitions(properties))
    if not partitions:
        return None
    return _DROPPED.format(why=why[:_SHOWN], partitions=partitions[:_SHOWN])


def left_to_hudi(properties: TableProperties, plan: PlannedRestore) -> PlannedRestore:
    """Complete a plan that Hudi's own procedure carries out."""
    left = not drops_metadata_table(properties)
    message = describe_dropped(properties, _FAILS)
    if left:
        message = _LEFT_TO_HUDI if named_partitions(properties) else None
    return replace(plan, by_hudi=True, keeps_metadata_table=left, metadata_table=message)


def drops_metadata_table(properties: TableProperties) -> bool:
    """Whether the metadata table has to be removed before Hudi's own procedure restores.

    In layout 1, that procedure fails if the metadata table has a compaction after the savepoint, or
    none before it. Retries fail until they run without a metadata table.
    """
    return properties.layout is Layout.ONE


def named_partitions(properties: TableProperties) -> list[str]:
    """The partitions of the metadata table, sorted, including those that are being built."""
    named = {
        name.strip()
        for key in METADATA_PARTITIONS
        for name in properties.values.get(key, "").split(",")
    }
    return sorted(named - {""})
