"""Reads of the timeline's files that the checks of a savepoint need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.file_slice import latest_slices, replaced_groups
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.table_services import earliest_retained, earliest_to_retain
from tidegate.hudi_reader.partitions import list_partitions
from tidegate.hudi_reader.slices import slice_rules, with_merged
from tidegate.hudi_reader.table import HudiTable
from tidegate.storage import NotFound, ParallelMap

_HELD: Final = 20_000
"""Maximum of files that the commits read ahead name together, unless a single one names more."""


def clean_bound(table: HudiTable) -> str | None:
    """The instant from which on every file is retained: Hudi's lower bound of savepoints.

    Without a clean, it is the first completed commit. Otherwise the last clean's metadata has it
    or, while that clean is pending, its plan; without one in the plan, it is the last write before
    the clean.

    Raises:
        FormatError: the clean's file can't be read.
        NotFound: the clean's file was removed meanwhile.
    """
    timeline = table.timeline
    cleans = timeline.of_action(Action.CLEAN)
    if not cleans:
        return next((i.timestamp for i in timeline.completed_writes), None)
    last = cleans[-1]
    if last.state is InstantState.COMPLETED:
        return earliest_retained(table.read(last))
    requested = Instant(last.timestamp, Action.CLEAN, InstantState.REQUESTED)
    try:
        planned = earliest_to_retain(table.read(requested))
    except NotFound as error:
        # permanent: even a clean that completed meanwhile still has its plan
        raise FormatError(
            f"clean {last.timestamp} is pending, but its plan {table.path_of(requested)} is missing"
        ) from error
    if planned is not None:
        return planned
    before = timeline.last_completed_write(until=last.timestamp)
    return before.timestamp if before else None


def undone_to(table: HudiTable, commit: str) -> frozenset[str]:
    """The timestamps of the writes that a restore to a commit would roll back."""
    savepoint = table.timeline.completed_write(commit)
    writes = () if savepoint is None else table.writes_after(savepoint)
    return frozenset(write.timestamp for write in writes)


def read_commits(
    table: HudiTable, commits: Sequence[Instant], parallel_map: ParallelMap
) -> Iterator[tuple[str, CommitMetadata]]:
    """Read the metadata of completed writes in order, each with its timestamp.

    Reads ahead as many commits as name about _HELD files together, so memory does not grow with
    the number of commits.

    Raises:
        FormatError: a commit can't be read.
        NotFound: a commit was removed meanwhile.
    """
    start, ahead = 0, 1
    while start < len(commits):
        window = commits[start : start + ahead]
        read = table.read_commits(window, parallel_map)
        for commit, metadata in zip(window, read, strict=True):
            yield commit.timestamp, metadata
        start += len(window)
        files = max(len(metadata.writes) for metadata in read)
        ahead = max(1, min(2 * ahead, _HELD // max(files, 1)))


def read_replaced(
    table: HudiTable, until: str, parallel_map: ParallelMap
) -> frozenset[tuple[str, str]]:
    """The file groups that replacecommits at or before `until` replaced.

    Raises: as `read_commits`.
    """
    replacements = [
        write
        for write in table.timeline.completed_writes
        if write.action is Action.REPLACE_COMMIT and write.timestamp <= until
    ]
    commits = read_commits(table, replacements, parallel_map)
    return frozenset().union(*(replaced_groups({t: m.replaced}, until) for t, m in commits))


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
