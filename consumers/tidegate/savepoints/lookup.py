"""What a savepoint's checks read from the files of the timeline."""

from __future__ import annotations

from functools import partial

from tidegate.errors import FormatError
from tidegate.hudi import Action, CommitMetadata, Instant, InstantState
from tidegate.hudi.clean import earliest_retained, earliest_to_retain
from tidegate.hudi_reader import HudiTable
from tidegate.storage import NotFound, ParallelMap


def clean_bound(table: HudiTable) -> str | None:
    """The instant from which on every file is kept: Hudi's lower bound of savepoints.

    Without a clean it is the first completed commit. Else it is in the last clean's metadata or,
    while that is pending, in its plan; if the plan has none, it is the last write before the clean.

    Raises:
        FormatError: the clean's file can't be read.
        NotFound: it was removed meanwhile.
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
        # a clean that completed meanwhile has its plan still: this one's is missing for good
        raise FormatError(
            f"clean {last.timestamp} is pending, but its plan {table.path_of(requested)} is missing"
        ) from error
    if planned is not None:
        return planned
    before = timeline.last_completed_write(until=last.timestamp)
    return before.timestamp if before else None


def read_commits(table: HudiTable, parallel_map: ParallelMap) -> dict[str, CommitMetadata]:
    """Read the metadata of every completed write on the timeline, by timestamp.

    Raises:
        FormatError: one of them can't be read.
        NotFound: one was removed meanwhile.
    """
    commits = table.timeline.completed_writes
    metadata = parallel_map.map(partial(HudiTable.read_commit, table), commits)
    return {commit.timestamp: read for commit, read in zip(commits, metadata, strict=True)}
