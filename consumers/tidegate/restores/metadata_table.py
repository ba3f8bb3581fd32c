"""What a restore does to Hudi's metadata table: kept where that is provably right, else dropped.

It lists the files of every completed write, and may have an index of every record. A restore that
undoes a write would have to undo it there too. What never began is in none of its partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.hudi import Instant, InstantState, Layout, TableProperties
from tidegate.hudi.properties import METADATA_PARTITIONS
from tidegate.restores.plan import PlannedRestore

_KEPT: Final = "kept: nothing that it has is rolled back"
_DROPPED: Final = (
    "dropped: it has files of what is rolled back. Readers list files until Hudi's next write has"
    " built it again, with: {partitions}"
)
_LEFT_TO_HUDI: Final = "left to Hudi, whose procedure restores it where it can and drops it else"
_SHOWN: Final = 300


def keeps_metadata_table(plan: PlannedRestore, later: Sequence[Instant]) -> bool:
    """Whether the metadata table says the same before and after a restore.

    It does if every instant to roll back was only requested, and has no file. A restore that is
    resumed may have had others.

    Args:
        plan: The plan of the restore.
        later: The instants that it rolls back.
    """
    if plan.resumes is not None:
        return not plan.steps
    never_began = all(instant.state is InstantState.REQUESTED for instant in later)
    return never_began and not any(step.paths for step in plan.steps)


def describe(properties: TableProperties, *, kept: bool = False) -> str | None:
    """What becomes of the metadata table and why, in a sentence; None if there is none."""
    partitions = ", ".join(named_partitions(properties))
    if not partitions:
        return None
    return _KEPT if kept else _DROPPED.format(partitions=partitions[:_SHOWN])


def describe_left_to_hudi(properties: TableProperties) -> str | None:
    """What is said of it where Hudi's own procedure restores; None if there is none."""
    return _LEFT_TO_HUDI if named_partitions(properties) else None


def drops_metadata_table(properties: TableProperties) -> bool:
    """Whether it has to go before Hudi's own procedure restores.

    Of layout 1 that procedure fails where the metadata table has a compaction after the savepoint,
    or none before it, and stays stuck until it is tried without one.
    """
    return properties.layout is Layout.ONE


def named_partitions(properties: TableProperties) -> list[str]:
    """The partitions of the metadata table, those that are being built too, in order."""
    named = {
        name.strip()
        for key in METADATA_PARTITIONS
        for name in properties.values.get(key, "").split(",")
    }
    return sorted(named - {""})
