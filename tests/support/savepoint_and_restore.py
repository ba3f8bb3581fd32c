"""Create a savepoint of a handmade table, read its files, and restore to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.hudi_tables import (
    HandMade,
    at,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.events import Outcome, SavepointRequested
    from tidegate.tables.warehouse import Warehouse


def write_savepoint(
    root: Path, command: SavepointRequested, warehouse: Warehouse | None = None
) -> Outcome:
    writer = SavepointWriter(warehouse or warehouse_over(root), ThreadMap(), ticking())
    (outcome,) = writer.execute(command)
    return outcome


def create_savepoint(table: HandMade, instant: str | None) -> Outcome:
    return write_savepoint(table.path.parent, savepoint_request(table, instant))


def savepoint_files(table: HandMade, instant: str) -> dict[str, tuple[str, ...]]:
    """The files that a savepoint pins, by partition."""
    (name,) = (n for n in timeline_names(table) if n.endswith(".savepoint") and instant in n)
    return dict(SavepointMetadata.decode((table.timeline / name).read_bytes()).files)


def restore(table: HandMade, instant: str = at(2), **fields: object) -> Outcome:
    """The last outcome of a restore that does not watch for writers first."""
    unwatched = RestoreSettings(watch_seconds=0)
    warehouse = warehouse_over(table.path.parent)
    restorer = Restorer(warehouse, ThreadMap(threads=1), ticking(), unwatched)
    *_, last = restorer.execute(restore_request(table, instant, **fields))
    return last
