"""Plan rollback blocks: the reads of a merge-on-read table that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, CommitMetadata, Instant, InstantState, RollbackBlock
from tidegate.hudi.commit import planned_updates
from tidegate.hudi.rollback_block import MAX_SIZE
from tidegate.hudi_reader import HudiTable, PartitionFiles
from tidegate.restores.log_blocks import SliceKey, StayingSlices, plan_blocks
from tidegate.restores.plan import Step
from tidegate.storage import ParallelMap, join
from tidegate.tables.refusal import Refused


def with_blocks(
    table: HudiTable,
    steps: Sequence[Step],
    writes: Mapping[Instant, CommitMetadata | None],
    partitions: Sequence[PartitionFiles],
    parallel_map: ParallelMap,
) -> tuple[Step, ...]:
    """Add the blocks that undo delta commits to the steps of a table of version 6.

    Args:
        table: The table.
        steps: The steps, with the files to delete.
        writes: The instants to roll back in the order of the steps; completed ones with metadata.
        partitions: All partitions and their files.
        parallel_map: Reads the log files that may be blocks of an earlier attempt.

    Raises:
        Refused: it is unclear which files an incomplete delta commit has written.
        FormatError: a file of the timeline can't be read.
        NotFound: a file was removed meanwhile.
    """
    slices = StayingSlices.of(partitions, {step.target.timestamp for step in steps})
    updates = [
        (instant, _updated(table, instant, commit, slices))
        for instant, commit in writes.items()
        if instant.action is Action.DELTA_COMMIT and instant.state is not InstantState.REQUESTED
    ]
    paths = sorted({path for _, keys in updates for key in keys for path in slices.small[key]})
    read = parallel_map.map(
        partial(table.storage.read, limit=MAX_SIZE), [join(table.location, p) for p in paths]
    )
    decoded = zip(paths, map(RollbackBlock.decode, read), strict=True)
    written = {path: block for path, block in decoded if block is not None}
    blocks = plan_blocks(updates, slices, written)
    return tuple(replace(step, blocks=blocks.get(step.target.timestamp, ())) for step in steps)


def _updated(
    table: HudiTable, instant: Instant, commit: CommitMetadata | None, slices: StayingSlices
) -> tuple[SliceKey, ...]:
    if commit is not None:
        return slices.updated_by(commit)
    content = table.read(replace(instant, state=InstantState.INFLIGHT))
    if not content:
        raise Refused(
            Reason.UNSUPPORTED_INSTANT,
            f"{instant.timestamp}.{instant.action} did not complete and does not name the file"
            " groups that it was going to update: roll that write back with Hudi first",
        )
    try:
        return slices.claimed_by(instant, planned_updates(content))
    except FormatError as error:
        raise FormatError(f"{instant.timestamp}.{instant.action}.inflight: {error}") from error
