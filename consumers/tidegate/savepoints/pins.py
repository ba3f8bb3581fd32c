"""The savepoints of a table with their marks and the files that they pin.

A savepoint pins those of its files that are in no slice of the newest commit. Without savepoints,
Hudi's cleaner could remove them once its own retention has passed. The sizes are from a current
listing of the table. Savepoints share files, so together they pin less than the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, latest_slices
from tidegate.hudi_reader import HudiTable, list_partitions, slice_rules, with_merged
from tidegate.savepoints.lookup import read_replaced
from tidegate.storage import NotFound, ParallelMap


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """A listing of the table's superseded files."""

    superseded: Mapping[tuple[str, str], int]
    """Size in bytes, by partition and name, of every file that is not in the newest commit."""

    def pinned(self, files: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], int]:
        """The given files (by partition) that only savepoints keep, with their sizes in bytes."""
        named = ((path, name) for path, names in files.items() for name in names)
        return {file: self.superseded[file] for file in named if file in self.superseded}


def newest_files(table: HudiTable, parallel_map: ParallelMap) -> ListedFiles:
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
    return ListedFiles(superseded)


def pinned_by_all(table: HudiTable, listed: ListedFiles) -> dict[tuple[str, str], int]:
    """The files that only savepoints keep, of all makers together, with their sizes in bytes.

    Raises:
        FormatError: a savepoint's file can't be read.
    """
    pinned = dict[tuple[str, str], int]()
    for _, metadata in read_savepoints(table):
        pinned |= listed.pinned(metadata.files)
    return pinned


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
