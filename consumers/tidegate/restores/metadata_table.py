"""Hudi's metadata table in a restore: it is dropped, and Hudi's next write builds it again.

The metadata table lists the files of every completed write, and may index every record. After a
restore it would name files that are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tidegate.hudi.instant import Layout
from tidegate.hudi.properties import METADATA_PARTITIONS, TableProperties, without
from tidegate.hudi_reader.table import PROPERTIES, read_properties
from tidegate.restores.plan import METADATA_TABLE, PlannedRestore
from tidegate.storage import NotFound, join
from tidegate.tables.claim import HUDI
from tidegate.tables.warehouse import Warehouse

_DROPPED: Final = (
    "dropped. Readers list files until Hudi's next write builds it again, with: {partitions}"
)
_KEPT: Final = "kept: nothing is rolled back"
_LEFT_TO_HUDI: Final = (
    "left to Hudi, whose procedure restores it if possible and otherwise drops it"
)
_SHOWN: Final = 300


def with_metadata_table(
    properties: TableProperties, plan: PlannedRestore, *, by_hudi: bool
) -> PlannedRestore:
    """Complete a plan with the fate of the metadata table.

    Args:
        properties: The table's properties.
        plan: The plan of the restore.
        by_hudi: Whether Hudi's own procedure carries it out.
    """
    drops = drops_before_hudi(properties) if by_hudi else bool(plan.steps)
    partitions = ", ".join(named_partitions(properties))
    message = None
    if partitions and drops:
        message = _DROPPED.format(partitions=partitions[:_SHOWN])
    elif partitions:
        message = _LEFT_TO_HUDI if by_hudi else _KEPT
    return replace(plan, by_hudi=by_hudi, drops_metadata_table=drops, metadata_table=message)


def drops_before_hudi(properties: TableProperties) -> bool:
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


def drop_metadata_table(
    warehouse: Warehouse, location: str, restore: str, check: Callable[[], object]
) -> None:
    """Remove the metadata table from the table's properties, as Hudi does, then its files.

    A crash within a removal file by file would leave a part, which Hudi would use when it resumes
    the restore. So the directory is moved away first. Where that is impossible, its timeline goes
    first: without it, Hudi does not use the rest.

    Call it before the first rollback, and `discard_remains` after the restore, even if another
    process completed it.

    Args:
        warehouse: The files of the table.
        location: The table's base path.
        restore: The restore's instant.
        check: Called right before every step that other processes can see; it raises if another
            process has completed the restore.
    """
    check()
    _undeclare(warehouse, location)
    if warehouse.can(location).renames:
        _move_away(warehouse, location, restore, check)
        discard_remains(warehouse, location, restore)
    place = join(location, METADATA_TABLE)
    for folder in (join(place, ".hoodie"), place):
        check()
        warehouse.remove_tree(folder)


def discard_remains(warehouse: Warehouse, location: str, restore: str) -> None:
    """Remove the directory that was moved away."""
    warehouse.remove_tree(_aside(location, restore))


def _undeclare(warehouse: Warehouse, location: str) -> None:
    content = read_properties(warehouse, location)
    edited = without(content, METADATA_PARTITIONS)
    if edited != content:
        warehouse.replace(join(location, PROPERTIES), edited)


def _move_away(
    warehouse: Warehouse, location: str, restore: str, check: Callable[[], object]
) -> None:
    folder, _, name = join(location, METADATA_TABLE).rpartition("/")
    there, _, as_name = _aside(location, restore).rpartition("/")

    def is_allowed(_files: object) -> bool:
        check()
        return True

    # an OSError comes from overlays and mounted object stores, which can't rename directories
    with suppress(NotFound, OSError), warehouse.moving(folder, there) as move:
        if move(name, as_name, is_allowed):
            check()
            # Hudi may have built and declared another one meanwhile
            _undeclare(warehouse, location)


def _aside(location: str, restore: str) -> str:
    return join(location, HUDI, f"restorer/metadata-{restore}")
