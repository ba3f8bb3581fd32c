"""What a savepoint keeps, and the checks before it is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.events.reasons import Reason
from tidegate.hudi import (
    CommitMetadata,
    Instant,
    Timeline,
    latest_base_files,
    replaced_groups,
)
from tidegate.hudi_reader import PartitionFiles
from tidegate.tables.refusal import Refused

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SavepointPlan:
    """The files to keep, by partition."""

    instant: str
    files: Mapping[str, tuple[str, ...]]


def choose_commit(timeline: Timeline, wanted: str | None) -> Instant:
    """The commit to savepoint: the wanted one, else the last completed one (Hudi's own default).

    Raises:
        Refused: there is no such commit.
    """
    found = timeline.completed_write(wanted) if wanted else timeline.last_completed_write()
    if found is not None:
        return found
    what = f"commit {wanted} is not among the completed" if wanted else "there are no completed"
    raise Refused(Reason.NO_SUCH_COMMIT, f"{what} commits of the table's active timeline")


def check_bound(commit: str, bound: str | None) -> None:
    """Check that a commit is not below `bound`, from which on the cleaner has kept every file.

    Raises:
        Refused: it is.
    """
    if bound and commit < bound:
        raise Refused(
            Reason.BELOW_LAST_CLEAN,
            f"commit {commit} is below {bound}, the earliest commit that the last clean retained:"
            " files that it needs may be cleaned already",
        )


def plan_savepoint(
    commit: str,
    timeline: Timeline,
    commits: Mapping[str, CommitMetadata],
    partitions: Iterable[PartitionFiles],
) -> SavepointPlan:
    """Choose the newest file of every file group at or before `commit`.

    A partition without such a file is in the plan too, with no files, as in Hudi.

    Args:
        commit: The timestamp of the commit to savepoint.
        timeline: The table's timeline.
        commits: The metadata of every completed write, by timestamp.
        partitions: All partitions of the table and their files.

    Raises:
        Refused: a file that the commit needs is gone.
    """
    replaced = replaced_groups({t: m.replaced for t, m in commits.items()}, commit)
    chosen = {
        p.path: latest_base_files(p.path, p.sizes, timeline, commit, replaced) for p in partitions
    }
    groups = {
        (path, base.file_id): base.instant for path, bases in chosen.items() for base in bases
    }
    missing = sorted(
        f"{group[1]} of {group[0] or 'the table'} at {instant}"
        for group, instant in _expected(commits, commit).items()
        if group not in replaced and groups.get(group, "") < instant
    )
    if missing:
        shown = "; ".join(missing[:_SHOWN])
        raise Refused(Reason.MISSING_FILES, f"{len(missing)} files of the commit are gone: {shown}")
    names = {path: tuple(b.file_name for b in bases) for path, bases in chosen.items()}
    return SavepointPlan(commit, names)


def _expected(commits: Mapping[str, CommitMetadata], until: str) -> dict[tuple[str, str], str]:
    """The file groups that must exist at `until`, each with the instant of its newest file.

    Writes up to then name their own files; later ones name the instant that they built upon. Hudi
    does not check: where its cleaner counts versions, it savepoints commits whose files are gone.
    """
    newest: dict[tuple[str, str], str] = {}
    for timestamp in sorted(commits):
        for stat in commits[timestamp].writes:
            instant = timestamp if timestamp <= until else stat.previous
            if instant is not None and instant <= until:
                group = (stat.partition, stat.file_id)
                newest[group] = max(newest.get(group, ""), instant)
    return newest
