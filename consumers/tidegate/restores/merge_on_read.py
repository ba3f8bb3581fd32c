"""Checks for writes to a merge-on-read table that can't be rolled back. Pure.

Each case is refused by name, because neither Hudi's rules nor the files determine how to undo it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidegate.events.reasons import Reason
from tidegate.hudi import (
    Action,
    CommitMetadata,
    Instant,
    InstantState,
    Layout,
    LogFile,
    Timeline,
    parse_data_file,
)
from tidegate.tables.refusal import Refused

CAN_ROLL_BACK: Final = frozenset(
    {
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.REPLACE_COMMIT,
        Action.CLUSTERING,
        Action.COMPACTION,
        Action.LOG_COMPACTION,
    }
)
_COMPACTS: Final = "COMPACT"


def check_later(layout: Layout, savepoint: Instant, later: Iterable[Instant]) -> None:
    """Check the instants that would be rolled back, as far as the timeline shows them.

    Raises:
        Refused: in layout 1, a log compaction is inflight, or a delta commit began before the
            savepoint's.
    """
    if layout is not Layout.ONE:
        return
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
