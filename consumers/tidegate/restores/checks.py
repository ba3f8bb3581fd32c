"""Every reason not to restore, found before anything is touched. Pure.

Real Hudi makes most of these checks when it reaches the instant in question. By then the later
commits are gone, the restore stays pending, and the table refuses every writer.

Reason codes: no-such-savepoint, savepoint-archived, restore-pending, rollback-pending,
indexing-pending, greater-savepoint, unsupported-instant, greater-commit, later-commit-stays,
unsafe-path, missing-files, deletes-savepoint-file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidegate.hudi import Action, Instant, SavepointMetadata, State, Timeline
from tidegate.hudi_reader import Partition
from tidegate.refusals import Refusal
from tidegate.restores.plan import Step

_ROLLED_BACK: Final = frozenset({Action.COMMIT, Action.REPLACE_COMMIT, Action.CLUSTERING})
_SHOWN: Final = 3

IsClustering = Callable[[Instant], bool]


def find_savepoint(timeline: Timeline, savepoint: str) -> Instant | Refusal:
    """The savepointed commit: it must have a completed savepoint and be on the active timeline."""
    if savepoint not in timeline.savepoints:
        return Refusal("no-such-savepoint", f"the table has no savepoint {savepoint}")
    commit = timeline.completed_write(savepoint)
    if commit is None:
        return Refusal("savepoint-archived", f"commit {savepoint} is off the active timeline")
    return commit


def check_timeline(
    timeline: Timeline,
    savepoint: Instant,
    later: Sequence[Instant],
    is_clustering: IsClustering,
) -> Refusal | None:
    """Check everything that the timeline alone can tell.

    Args:
        timeline: The table's timeline.
        savepoint: The savepointed commit.
        later: The instants to roll back, in order.
        is_clustering: Tells whether a pending replacecommit is a clustering.
    """
    return (
        _no_greater_savepoint(timeline, savepoint, later)
        or _only_known_actions(later)
        or _nothing_half_done(timeline, savepoint)
        or _no_greater_commit(timeline, later, is_clustering)
        or _savepoint_will_be_last(timeline, savepoint, later)
    )


def _no_greater_savepoint(
    timeline: Timeline, savepoint: Instant, later: Sequence[Instant]
) -> Refusal | None:
    doomed = {instant.timestamp for instant in later}
    for other in timeline.of_action(Action.SAVEPOINT):
        if other.timestamp in doomed or other.timestamp > savepoint.timestamp:
            return Refusal(
                "greater-savepoint",
                f"commit {other.timestamp} has a savepoint; remove that savepoint first",
            )
    return None


def _only_known_actions(later: Sequence[Instant]) -> Refusal | None:
    for instant in later:
        if instant.action not in _ROLLED_BACK:
            return Refusal(
                "unsupported-instant",
                f"{instant.timestamp}.{instant.action} can't be rolled back on copy-on-write",
            )
    return None


def _nothing_half_done(timeline: Timeline, savepoint: Instant) -> Refusal | None:
    pending = (State.REQUESTED, State.INFLIGHT)
    for rollback in timeline.of_action(Action.ROLLBACK, *pending):
        if rollback.timestamp < savepoint.timestamp:
            return Refusal(
                "rollback-pending", f"rollback {rollback.timestamp} has not completed yet"
            )
    for indexing in timeline.of_action(Action.INDEXING, *pending):
        return Refusal("indexing-pending", f"indexing {indexing.timestamp} has not completed yet")
    return None


def _no_greater_commit(
    timeline: Timeline, later: Sequence[Instant], is_clustering: IsClustering
) -> Refusal | None:
    """No write may be rolled back under a completed one that was requested after it."""
    standing = {instant.timestamp for instant in timeline.completed_writes}
    for instant in later:
        standing.discard(instant.timestamp)
        pending = instant.state is not State.COMPLETED
        if pending and is_clustering(instant):
            continue
        greater = max(standing, default="")
        if greater > instant.timestamp:
            return Refusal(
                "greater-commit",
                f"{instant.timestamp} can't be rolled back under the completed commit {greater}",
            )
    return None


def _savepoint_will_be_last(
    timeline: Timeline, savepoint: Instant, later: Sequence[Instant]
) -> Refusal | None:
    """A write requested after the savepoint's commit and completed before it would stay.

    Hudi restores then, and leaves rows in the table that the savepoint does not have.
    """
    doomed = {instant.timestamp for instant in later}
    for commit in timeline.completed_writes:
        if commit.timestamp > savepoint.timestamp and commit.timestamp not in doomed:
            return Refusal(
                "later-commit-stays",
                f"commit {commit.timestamp} began after the savepoint's commit and completed"
                " before it: a restore would leave its rows",
            )
    return None


def check_files(
    kept: SavepointMetadata, steps: Iterable[Step], partitions: Iterable[Partition]
) -> Refusal | None:
    """Check that the savepoint's files are all there, and that no step deletes one or strays."""
    there = {partition.path: partition.sizes for partition in partitions}
    wanted = [(partition, name) for partition, names in kept.files.items() for name in names]
    missing = [name for partition, name in wanted if name not in there.get(partition, ())]
    if missing:
        shown = ", ".join(missing[:_SHOWN])
        return Refusal("missing-files", f"{len(missing)} files of the savepoint are gone: {shown}")
    keep = {f"{partition}/{name}" if partition else name for partition, name in wanted}
    for file in (file for step in steps for file in step.files):
        if not _stays_inside(file.path):
            return Refusal("unsafe-path", f"a commit names {file.path}, which is no data file")
        if file.path in keep:
            return Refusal(
                "deletes-savepoint-file",
                f"{file.path} belongs to the savepoint and to a commit that completed after it",
            )
    return None


def _stays_inside(path: str) -> bool:
    parts = path.split("/")
    return "://" not in path and parts[0] != ".hoodie" and not {"", ".", ".."} & set(parts)
