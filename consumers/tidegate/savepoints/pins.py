"""The savepoints of a table with what their marks say, and what they pin.

A savepoint pins the files that no slice of the newest commit has any more: without savepoints,
Hudi's cleaner could remove them as soon as its own retention is over. Their sizes are those of a
listing of the table as it is now. What savepoints pin together is not the sum: they share files.
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
"""Savepoints in one outcome; the oldest."""


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """A listing: the size of each file by partition and name, and which of them are superseded."""

    superseded: Mapping[tuple[str, str], int]
    """By partition and name the size, in bytes, of each file that the newest commit has not."""

    def pinned(self, files: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], int]:
        """Those of these files (by partition) that only savepoints keep, with their sizes."""
        named = ((path, name) for path, names in files.items() for name in names)
        return {each: self.superseded[each] for each in named if each in self.superseded}


def newest_files(table: HudiTable, parallel_map: ParallelMap) -> ListedFiles:
    """List the table, and tell the files of its newest commit from the others.

    Raises:
        FormatError: a commit's metadata can't be read.
        NotFound: one was removed meanwhile.
    """
    last = table.timeline.last_completed_write()
    newest = last.timestamp if last else ""
    replaced = read_replaced(table, newest, parallel_map)
    partitions = list_partitions(table.storage, table.location, parallel_map)
    rules = with_merged(table, slice_rules(table), partitions)
    superseded = dict[tuple[str, str], int]()
    for partition in partitions:
        slices = latest_slices(partition.path, partition.sizes, rules, newest, replaced)
        current = {name for one in slices for name in one.file_names}
        superseded |= {
            (partition.path, n): s for n, s in partition.sizes.items() if n not in current
        }
    return ListedFiles(superseded)


@dataclass(frozen=True, slots=True)
class Review:
    """The savepoints of a table, and what they pin together."""

    savepoints: tuple[KeptSavepoint, ...]
    """Those that a policy made or that have a lifetime, oldest first; the oldest MAX_REVIEWED."""
    pinned_files: int
    pinned_bytes: int


def review_savepoints(
    table: HudiTable, listed: ListedFiles, made: Mapping[str, SavepointMetadata], now: datetime
) -> Review:
    """Look at every savepoint of a table, and at those that are about to be completed (`made`).

    Raises:
        FormatError: a savepoint's file can't be read.
    """
    there = ((instant.timestamp, metadata) for instant, metadata in read_savepoints(table))
    kept, pinned = list[KeptSavepoint](), dict[tuple[str, str], int]()
    for instant, metadata in chain(there, made.items()):
        own = listed.pinned(metadata.files)
        pinned |= own
        if all(each.instant != instant for each in kept):
            kept.append(kept_savepoint(instant, metadata, own))
    ending = [each for each in kept if each.policy or each.lifetime_seconds is not None]
    claimed = claimed_for_good(table.storage, table.location, now)
    may_end = [each for each in ending if each.instant not in claimed]
    oldest = tuple(sorted(may_end, key=lambda each: each.instant)[:MAX_REVIEWED])
    return Review(oldest, len(pinned), sum(pinned.values()))


def read_savepoints(
    table: HudiTable, *, newest_first: bool = False
) -> Iterator[tuple[Instant, SavepointMetadata]]:
    """The completed savepoints, by their instants; one that goes meanwhile is left out.

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
    """When a savepoint was made, by its maker's clock; 1970 where that is no time at all."""
    try:
        return datetime.fromtimestamp(metadata.at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def kept_savepoint(
    instant: str, metadata: SavepointMetadata, pinned: Mapping[tuple[str, str], int] | None
) -> KeptSavepoint:
    """A savepoint with what its mark says; `pinned` has its pinned files' sizes, if known."""
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
