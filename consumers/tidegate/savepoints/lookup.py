"""What a savepoint's checks need from the table's timeline files."""

from __future__ import annotations

from functools import partial

from tidegate.fanout import FanOut
from tidegate.hudi import Action, CommitMetadata, Instant, State
from tidegate.hudi.clean import kept_from, plans_to_keep_from
from tidegate.hudi_reader import HudiTable


def clean_bound(table: HudiTable) -> str | None:
    """The instant from which on every file is kept: Hudi's lower bound of savepoints.

    Without a clean it is the first completed commit. The last clean says it, by its metadata or,
    while pending, by its plan; a plan that does not say it bounds at the last write before it.

    Raises:
        FormatError: the clean's file can't be read.
        NotFound: it went away in between.
    """
    timeline = table.timeline
    cleans = timeline.of_action(Action.CLEAN)
    if not cleans:
        return next((i.timestamp for i in timeline.completed_writes), None)
    last = cleans[-1]
    if last.state is State.COMPLETED:
        return kept_from(table.read(last))
    requested = Instant(last.timestamp, Action.CLEAN, State.REQUESTED)
    planned = plans_to_keep_from(table.read(requested))
    if planned is not None:
        return planned
    before = timeline.last_completed_write(until=last.timestamp)
    return before.timestamp if before else None


def read_commits(table: HudiTable, fan_out: FanOut) -> dict[str, CommitMetadata]:
    """Read the metadata of every completed write on the timeline, by timestamp.

    Raises:
        FormatError: one of them can't be read.
        NotFound: one went away in between.
    """
    commits = table.timeline.completed_writes
    metadata = fan_out.map(partial(HudiTable.read_commit, table), commits)
    return {commit.timestamp: read for commit, read in zip(commits, metadata, strict=True)}
