"""The savepoints of a table with their marks and the files that they pin.

A savepoint pins those of its files that are in no slice of the newest commit. Without savepoints,
Hudi's cleaner could remove them once its own retention has passed. The sizes are from a current
listing of the table. Savepoints share files, so together they pin less than the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, latest_slices
from tidegate.hudi_reader import HudiTable, list_partitions, slice_rules, with_merged
from tidegate.savepoints.lookup import read_replaced
from tidegate.storage import NotFound, ParallelMap

Superseded = Mapping[tuple[str, str], int]
"""Size in bytes, by partition and name, of the files that are not in the newest commit."""


def pinned_by(metadata: SavepointMetadata, superseded: Superseded) -> dict[tuple[str, str], int]:
    """The files of a savepoint that only savepoints keep, with their sizes in bytes."""
    named = ((path, name) for path, names in metadata.files.items() for name in names)
    return {file: superseded[file] for file in named if file in superseded}


def superseded_files(table: HudiTable, parallel_map: ParallelMap) -> Superseded:
    """List the table and find the files that are not in its newest commit.

    Raises:
        FormatError: a commit's metadata can't be read.
        NotFound: a commit was removed meanwhile.
    """
    last = table.timeline.last_completed_write()
    newest = last.timestamp if last else ""
    replaced = read_replaced(table, newest, parallel_map)
    partitions = list_partitions(table.storage, table.location, parallel_map)
    rules = with_merged(table, slice_rules(table), partitions)
    superseded = dict[tuple[str, str], int]()
    for partition in partitions:
        slices = latest_slices(partition.path, partition.sizes, rules, newest, replaced)
        current = {name for slice_ in slices for name in slice_.file_names}
        superseded |= {
            (partition.path, n): s for n, s in partition.sizes.items() if n not in current
        }
    return superseded


def read_savepoints(table: HudiTable) -> Iterator[tuple[Instant, SavepointMetadata]]:
    """The completed savepoints with their instants; one that is removed meanwhile is skipped.

    Raises:
        FormatError: a savepoint's file can't be read.
    """
    completed = table.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    for instant in completed:
        try:
            content = table.read(instant)
        except NotFound:
            continue
        yield instant, SavepointMetadata.decode(content)


def made_at(metadata: SavepointMetadata) -> datetime:
    """When a savepoint was made, by its maker's clock; 1970 if that time is invalid."""
    try:
        return datetime.fromtimestamp(metadata.at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
