"""The savepoints of a table with their marks and the files that they pin.

A savepoint pins those of its files that are in no slice of the newest commit. Without savepoints,
Hudi's cleaner could remove them once its own retention has passed. The sizes are from a current
listing of the table. Savepoints share files, so together they pin less than the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from tidegate.events import KeptSavepoint, SavepointMark
from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, latest_slices
from tidegate.hudi_reader import HudiTable, list_partitions, slice_rules, with_merged
from tidegate.savepoints.claims import claimed_for_good
from tidegate.savepoints.lookup import read_replaced
from tidegate.storage import NotFound, ParallelMap

MAX_REVIEWED: Final = 1000
"""Maximum of savepoints in one outcome; the oldest ones."""


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


@dataclass(frozen=True, slots=True)
class Review:
    """The savepoints of a table, and the files and bytes that they pin together."""

    savepoints: tuple[KeptSavepoint, ...]
    """Those that a policy made or that have a lifetime, oldest first; the oldest MAX_REVIEWED."""
    pinned_files: int
    pinned_bytes: int


def review_savepoints(
    table: HudiTable, listed: ListedFiles, made: Mapping[str, SavepointMetadata], now: datetime
) -> Review:
    """Review every savepoint of a table and those that are about to be completed (`made`).

    Raises:
        FormatError: a savepoint's file can't be read.
    """
    there = ((instant.timestamp, metadata) for instant, metadata in read_savepoints(table))
    kept, pinned = list[KeptSavepoint](), dict[tuple[str, str], int]()
    for instant, metadata in chain(there, made.items()):
        own = listed.pinned(metadata.files)
        pinned |= own
        if all(savepoint.instant != instant for savepoint in kept):
            kept.append(kept_savepoint(instant, metadata, own))
    ending = [
        savepoint
        for savepoint in kept
        if savepoint.policy or savepoint.lifetime_seconds is not None
    ]
    claimed = claimed_for_good(table.storage, table.location, now)
    may_end = [savepoint for savepoint in ending if savepoint.instant not in claimed]
    oldest = tuple(sorted(may_end, key=lambda savepoint: savepoint.instant)[:MAX_REVIEWED])
    return Review(oldest, len(pinned), sum(pinned.values()))


def read_savepoints(
    table: HudiTable, *, newest_first: bool = False
) -> Iterator[tuple[Instant, SavepointMetadata]]:
    """The completed savepoints with their instants; one that is removed meanwhile is skipped.

    Raises:
        FormatError: a savepoint's file can't be read.
    """
    completed = table.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)
    for instant in reversed(completed) if newest_first else completed:
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


def kept_savepoint(
    instant: str, metadata: SavepointMetadata, pinned: Mapping[tuple[str, str], int] | None
) -> KeptSavepoint:
    """A savepoint with the fields of its mark; `pinned` has the sizes of its pinned files."""
    mark, _ = SavepointMark.parse(metadata.comment)
    fields = mark.model_dump() if mark else {}
    return KeptSavepoint(
        instant=instant,
        made_by=metadata.by or "?",
        made_at=made_at(metadata),
        files=metadata.file_count,
        pinned_files=None if pinned is None else len(pinned),
        pinned_bytes=None if pinned is None else sum(pinned.values()),
        **fields,
    )
