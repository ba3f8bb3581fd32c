"""All reasons to refuse a restore, checked before anything is changed. Pure.

Hudi itself makes most of these checks when it reaches the instant in question. By then the later
commits are gone, the restore stays pending, and the table refuses every writer.

Some writes to a merge-on-read table are refused by name, because neither Hudi's rules nor the files
determine how to undo them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from tidegate.events.reasons import Reason
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.file_slice import BaseFile, LogFile, parse_data_file
from tidegate.hudi.instant import Action, Instant, InstantState, Layout, is_instant
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.timeline import Timeline
from tidegate.hudi_reader.partitions import PartitionFiles
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.plan import Step
from tidegate.tables.refusal import Refused

_CAN_ROLL_BACK: Final = frozenset({Action.COMMIT, Action.REPLACE_COMMIT, Action.CLUSTERING})
_OF_LOGS: Final = frozenset({Action.DELTA_COMMIT, Action.COMPACTION, Action.LOG_COMPACTION})
"""Actions that only a merge-on-read table has."""
_COMPACTS: Final = "COMPACT"
_PENDING: Final = (InstantState.REQUESTED, InstantState.INFLIGHT)
_SHOWN: Final = 3


def find_savepoint(timeline: Timeline, savepoint: str) -> Instant:
    """The savepointed commit; it must have a completed savepoint and be on the active timeline.

    Raises:
        Refused: the commit has no savepoint, or was archived.
    """
    if savepoint not in timeline.savepoints:
        raise Refused(Reason.NO_SUCH_SAVEPOINT, f"the table has no savepoint {savepoint}")
    commit = timeline.completed_write(savepoint)
    if commit is None:
        raise Refused(
            Reason.SAVEPOINT_ARCHIVED, f"commit {savepoint} is not on the active timeline"
        )
    return commit


def check_timeline(
    table: HudiTable, savepoint: Instant, later: Sequence[Instant], *, by_hudi: bool = False
) -> None:
    """Make all checks that need only the timeline.

    Args:
        table: The table with its timeline.
        savepoint: The savepointed commit.
        later: The instants to roll back, in order.
        by_hudi: Whether Hudi's own procedure will roll them back. It does not support log
            compactions and would fail half way.

    Raises:
        Refused: a check failed.
    """
    timeline, properties = table.timeline, table.properties
    _check_later_savepoints(timeline, savepoint, later)
    known = _CAN_ROLL_BACK | (_OF_LOGS if properties.is_merge_on_read else frozenset())
    unknown = {Action.LOG_COMPACTION} if by_hudi else set[Action]()
    _check_actions(later, known - unknown, merge_on_read=properties.is_merge_on_read)
    if properties.is_merge_on_read and not by_hudi and properties.layout is Layout.ONE:
        _check_logs_of_layout_1(savepoint, later)
    _check_pending_services(timeline, savepoint)
    _check_savepoint_becomes_last(timeline, savepoint, later)


def _check_later_savepoints(
    timeline: Timeline, savepoint: Instant, later: Sequence[Instant]
) -> None:
    rolled_back = {instant.timestamp for instant in later}
    in_the_way = [
        other.timestamp
        for other in timeline.of_action(Action.SAVEPOINT)
        if not is_abandoned_savepoint(timeline, other)
        and (other.timestamp in rolled_back or other.timestamp > savepoint.timestamp)
    ]
    if in_the_way:
        raise Refused(
            Reason.GREATER_SAVEPOINT,
            f"these later commits have savepoints, which must be removed first:"
            f" {', '.join(in_the_way)}",
        )


def is_abandoned_savepoint(timeline: Timeline, savepoint: Instant) -> bool:
    """Whether a savepoint is inflight and its commit is gone, so that it protects nothing.

    A live savepoint writer removes its inflight file as soon as it finds the commit gone.
    """
    is_inflight = savepoint.state is InstantState.INFLIGHT
    return is_inflight and timeline.completed_write(savepoint.timestamp) is None


def _check_actions(
    later: Sequence[Instant], known: AbstractSet[Action], *, merge_on_read: bool
) -> None:
    for instant in later:
        if instant.action not in known:
            raise Refused(
                Reason.UNSUPPORTED_INSTANT,
                f"{instant.timestamp}.{instant.action}: a {instant.action} can't be rolled back"
                f" on a {'merge-on-read' if merge_on_read else 'copy-on-write'} table",
            )


def _check_pending_services(timeline: Timeline, savepoint: Instant) -> None:
    for rollback in timeline.of_action(Action.ROLLBACK, *_PENDING):
        if rollback.timestamp < savepoint.timestamp:
            raise Refused(
                Reason.ROLLBACK_PENDING, f"rollback {rollback.timestamp} has not completed yet"
            )
    for indexing in timeline.of_action(Action.INDEXING, *_PENDING):
        raise Refused(
            Reason.INDEXING_PENDING, f"indexing {indexing.timestamp} has not completed yet"
        )


def check_not_built_upon(steps: Iterable[Step], staying: Mapping[str, CommitMetadata]) -> None:
    """Check that no remaining commit was built upon a commit that is rolled back.

    A write that was requested before the savepointed commit and completed after it is rolled back,
    as in Hudi with its lazy policy for failed writes (its eager policy is for a single writer,
    whose writes don't overlap). Up to table version 6, only a file's modification time shows the
    completion. A copy of the table may have lost that time, but the metadata still show the order.

    Args:
        steps: The steps of completed writes that were requested before the savepointed commit.
        staying: The metadata of the remaining commits, by timestamp.

    Raises:
        Refused: a remaining commit needs one that would be rolled back.
    """
    older = {
        step.target.timestamp: {
            (file.partition, base.file_id)
            for file in step.files
            if (base := BaseFile.parse(file.path.rpartition("/")[2])) is not None
        }
        for step in steps
    }
    for timestamp, commit in staying.items():
        replaced = {(p, group) for p, groups in commit.replaced.items() for group in groups}
        previous = {stat.previous for stat in commit.writes}
        for target, groups in older.items():
            if target < timestamp and (target in previous or groups & replaced):
                raise Refused(
                    Reason.GREATER_COMMIT,
                    f"{target} can't be rolled back: commit {timestamp}, which remains, was built"
                    " upon it",
                )


def _check_savepoint_becomes_last(
    timeline: Timeline, savepoint: Instant, later: Sequence[Instant]
) -> None:
    """Refuse if a write was requested after the savepoint's commit and completed before it.

    Hudi restores such a table and leaves rows in it that the savepoint does not have.
    """
    rolled_back = {instant.timestamp for instant in later}
    for commit in timeline.completed_writes:
        if commit.timestamp > savepoint.timestamp and commit.timestamp not in rolled_back:
            raise Refused(
                Reason.LATER_COMMIT_STAYS,
                f"commit {commit.timestamp} began after the savepoint's commit and completed"
                " before it, so a restore would leave its rows",
            )


def check_seen(timeline: Timeline, later: Iterable[Instant], seen_up_to: str) -> None:
    """Check that the requester had seen every completed commit that would be rolled back.

    Args:
        timeline: The table's timeline.
        later: The instants to roll back.
        seen_up_to: The latest instant that the requester had seen: the requested time of a commit,
            or a completion time.

    Raises:
        Refused: a commit completed after `seen_up_to`, or that is not an instant.
    """
    if not is_instant(seen_up_to):
        raise Refused(Reason.NEWER_COMMITS, f"seen_up_to is not an instant: {seen_up_to}")
    seen = timeline.completed_write(seen_up_to)
    bound = max(seen_up_to, (seen and seen.completion) or "")
    newer = {
        max(write.timestamp, write.completion or ""): write.timestamp
        for write in later
        if write.state is InstantState.COMPLETED
    }
    last = max(newer, default="")
    if last > bound:
        raise Refused(
            Reason.NEWER_COMMITS,
            f"commit {newer[last]} completed after {seen_up_to}: review the new plan, then request"
            f" the restore with seen_up_to {last} or with the plan's id",
        )


def check_committed(table: HudiTable, savepoint: str, kept: SavepointMetadata) -> None:
    """Check that Hudi counts the files of the savepoint.

    With `hoodie.archive.beyond.savepoint`, Hudi archives commits between two savepoints. It then
    ignores their files, because they are neither of a commit nor older than the timeline.

    Args:
        table: The table with its timeline.
        savepoint: The instant of the savepoint.
        kept: The files of the savepoint.

    Raises:
        Refused: files belong to commits that were archived.
    """
    timeline, has_logs = table.timeline, table.properties.layout is not Layout.ONE
    files = (
        parse_data_file(name) if has_logs else BaseFile.parse(name)
        for names in kept.files.values()
        for name in names
    )
    instants = {file.instant for file in files if file is not None and file.instant <= savepoint}
    known = {write.timestamp for write in timeline.writes}
    archived = sorted(i for i in instants - known if not timeline.is_committed(i))
    if archived:
        raise Refused(
            Reason.SAVEPOINT_ARCHIVED,
            f"{len(archived)} commits with files of the savepoint are not on the timeline, though"
            f" an older one is: {', '.join(archived[:_SHOWN])}. Hudi would not read these files"
            " after a restore",
        )


def check_files(
    table: HudiTable,
    kept: SavepointMetadata,
    steps: Sequence[Step],
    partitions: Iterable[PartitionFiles],
) -> None:
    """Check that all files of the savepoint exist, and that every step deletes only data files.

    No step may delete a file of the savepoint. A savepoint also lists the log files that later
    commits had written to its slices by the time it was made. In layout 2 those go with their
    commits, and after an earlier restore they are gone.

    Raises:
        Refused: a check failed.
    """
    present = {partition.path: partition.sizes for partition in partitions}
    rolled_back = {step.target.timestamp for step in steps}
    wanted = [
        (partition, name)
        for partition, names in kept.files.items()
        for name in names
        if not _is_of_a_later_write(table, name, rolled_back)
    ]
    missing = [name for partition, name in wanted if name not in present.get(partition, ())]
    if missing:
        shown = ", ".join(missing[:_SHOWN])
        raise Refused(
            Reason.MISSING_FILES, f"{len(missing)} files of the savepoint are gone: {shown}"
        )
    keep = {f"{partition}/{name}" if partition else name for partition, name in wanted}
    planned = [path for step in steps for path in step.paths]
    for path in planned:
        if not _stays_inside(path):
            raise Refused(
                Reason.UNSAFE_PATH, f"a commit names {path}, which is not a data file of the table"
            )
        if path in keep:
            raise Refused(
                Reason.DELETES_SAVEPOINT_FILE,
                f"{path} belongs both to the savepoint and to a commit that completed after it",
            )


def _is_of_a_later_write(table: HudiTable, name: str, rolled_back: AbstractSet[str]) -> bool:
    log = LogFile.parse(name)
    if log is None or log.is_change_data or table.properties.layout is Layout.ONE:
        return False
    return log.instant in rolled_back or not table.timeline.is_committed(log.instant)


def _stays_inside(path: str) -> bool:
    parts = path.split("/")
    return parts[0] != ".hoodie" and not {"", ".", ".."} & set(parts)


def _check_logs_of_layout_1(savepoint: Instant, later: Iterable[Instant]) -> None:
    """Check that no log compaction is inflight, and no delta commit began before the savepoint."""
    for instant in later:
        shown = f"{instant.timestamp}.{instant.action}"
        if instant.action is Action.LOG_COMPACTION and instant.state is InstantState.INFLIGHT:
            raise Refused(
                Reason.UNSUPPORTED_INSTANT,
                f"{shown} is inflight: in this table version, its log files look like any others;"
                " complete it, or roll it back with Hudi first",
            )
        is_older = instant.timestamp < savepoint.timestamp
        is_completed = instant.state is InstantState.COMPLETED
        if instant.action is Action.DELTA_COMMIT and is_older and is_completed:
            # only a modification time shows this, and a copy of the table may have lost it
            raise Refused(
                Reason.UNSUPPORTED_INSTANT,
                f"{shown} began before the savepoint's commit, and its file was modified after it:"
                " in this table version, later writes can't be distinguished from those built upon"
                " it",
            )


def overlapping_commits(timeline: Timeline, savepoint: Instant) -> tuple[Instant, ...]:
    """Commits that began before the savepoint's and completed after it; they stay, as in Hudi."""
    bound = savepoint.completion or ""
    return tuple(
        i
        for i in timeline.completed_writes
        if i.action is Action.COMMIT
        and i.timestamp < savepoint.timestamp
        and (i.completion or "") > bound
    )


def check_overlapping(commits: Mapping[str, CommitMetadata]) -> None:
    """Check that the remaining commits are compactions, which add no rows.

    Raises:
        Refused: a commit is a write (a bulk insert), whose rows the savepoint does not have.
    """
    for timestamp, commit in commits.items():
        if commit.operation != _COMPACTS:
            raise Refused(
                Reason.UNSUPPORTED_INSTANT,
                f"commit {timestamp} ({commit.operation}) began before the savepoint's commit and"
                " completed after it: a restore would leave its rows",
            )


def check_named_after_writers(commits: Mapping[str, CommitMetadata]) -> None:
    """Check, in layout 2, that log files are named after the commits that wrote them.

    Raises:
        Refused: a log file is not, because it was written before the table's upgrade.
    """
    for timestamp, commit in commits.items():
        for stat in commit.writes:
            file = parse_data_file(stat.path.rpartition("/")[2])
            if isinstance(file, LogFile) and file.instant != timestamp:
                raise Refused(
                    Reason.UNSUPPORTED_INSTANT,
                    f"commit {timestamp} wrote {stat.path}, which is named as in table version 6:"
                    " a restore can't go back to before the table's upgrade",
                )
