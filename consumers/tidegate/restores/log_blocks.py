"""Which rollback blocks undo the delta commits of a merge-on-read table of version 6.

In that version, a log file is named after its slice, not after the delta commit that wrote it. So,
as in Hudi, no log file is deleted while its slice stays. A slice that a rolled-back instant began
is deleted completely and needs no block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

from tidegate.errors import FormatError
from tidegate.events.reasons import Reason
from tidegate.hudi.commit import CommitMetadata, WriteStat, planned_updates
from tidegate.hudi.file_slice import LogFile, parse_data_file
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback_block import MAX_SIZE, RollbackBlock
from tidegate.hudi_reader.partitions import PartitionFiles
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.plan import PlannedBlock, Step, path_of
from tidegate.storage import ParallelMap, join
from tidegate.tables.refusal import Refused


class _SliceKey(NamedTuple):
    """A file slice: its partition, file group and instant."""

    partition: str
    file_id: str
    instant: str


@dataclass(frozen=True, slots=True)
class _StayingSlices:
    """The slices that no rolled-back instant began, each with its log files.

    `small` has the paths of the log files that are small enough to be rollback blocks. `begun` has
    the instants of all slices of every file group, including slices that are deleted.
    """

    logs: Mapping[_SliceKey, tuple[LogFile, ...]]
    small: Mapping[_SliceKey, tuple[str, ...]]
    begun: Mapping[tuple[str, str], AbstractSet[str]]
    rolled_back: AbstractSet[str]

    @classmethod
    def of(cls, partitions: Iterable[PartitionFiles], rolled_back: AbstractSet[str]) -> Self:
        """Find the staying slices among all files of a table."""
        logs = defaultdict[_SliceKey, list[LogFile]](list)
        small = defaultdict[_SliceKey, list[str]](list)
        begun = defaultdict[tuple[str, str], set[str]](set)
        for partition in partitions:
            for name, size in partition.sizes.items():
                file = parse_data_file(name)
                if file is None:
                    continue
                key = _SliceKey(partition.path, file.file_id, file.instant)
                begun[key[:2]].add(file.instant)
                if not isinstance(file, LogFile) or file.is_change_data:
                    continue  # change data are not part of the table
                if file.instant not in rolled_back:
                    logs[key].append(file)
                    if size <= MAX_SIZE:
                        small[key].append(path_of(partition.path, name))
        return cls(
            {key: tuple(sorted(found, key=lambda log: log.order)) for key, found in logs.items()},
            {key: tuple(small.get(key, ())) for key in logs},
            begun,
            rolled_back,
        )

    def updated_by(self, commit: CommitMetadata) -> tuple[_SliceKey, ...]:
        """The slices to which a completed delta commit appended log files."""
        return self._with_logs(
            _SliceKey(stat.partition, log.file_id, log.instant)
            for stat in commit.writes
            if (log := LogFile.parse(stat.path.rpartition("/")[2])) is not None
        )

    def claimed_by(self, pending: Instant, updates: Iterable[WriteStat]) -> tuple[_SliceKey, ...]:
        """The slices to which an incomplete delta commit may have appended log files.

        Raises:
            Refused: a compaction began a newer slice since, so the slice is ambiguous.
        """
        return self._with_logs(self._claims(pending, updates))

    def _claims(self, pending: Instant, updates: Iterable[WriteStat]) -> Iterator[_SliceKey]:
        for stat in updates:
            begun = self.begun.get((stat.partition, stat.file_id), set())
            if any(start > pending.timestamp for start in begun - self.rolled_back):
                raise Refused(
                    Reason.UNSUPPORTED_INSTANT,
                    f"{pending.timestamp}.{pending.action} did not complete, and its file group"
                    f" {stat.file_id} was compacted since: roll that write back with Hudi first",
                )
            # the delta commit wrote to the slice that was the newest when it began
            newest = max((start for start in begun if start < pending.timestamp), default="")
            yield _SliceKey(stat.partition, stat.file_id, newest)

    def _with_logs(self, keys: Iterable[_SliceKey]) -> tuple[_SliceKey, ...]:
        return tuple(sorted({key for key in keys if key in self.logs}))


def plan_blocks(
    updates: Iterable[tuple[Instant, Sequence[_SliceKey]]],
    slices: _StayingSlices,
    written: Mapping[str, RollbackBlock],
) -> dict[str, tuple[PlannedBlock, ...]]:
    """Name the log file of every block: the next version in its slice, with the last write token.

    Args:
        updates: The delta commits to undo, in the order of the restore, with their slices.
        slices: The slices that stay.
        written: The rollback blocks that these slices already have, by path; not written again.

    Returns:
        The blocks by the timestamp of the delta commit.
    """
    last = {key: logs[-1] for key, logs in slices.logs.items()}
    planned: dict[str, tuple[PlannedBlock, ...]] = {}
    for instant, keys in updates:
        blocks = list[PlannedBlock]()
        for key in keys:
            there = [
                path
                for path in slices.small[key]
                if path in written and written[path].target == instant.timestamp
            ]
            if not there:
                log = last[key]
                last[key] = LogFile(log.file_id, log.instant, log.version + 1, log.token)
            path = there[0] if there else path_of(key.partition, last[key].file_name)
            blocks.append(PlannedBlock(key.partition, path, is_there=bool(there)))
        planned[instant.timestamp] = tuple(blocks)
    return planned


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
    slices = _StayingSlices.of(partitions, {step.target.timestamp for step in steps})
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
    table: HudiTable, instant: Instant, commit: CommitMetadata | None, slices: _StayingSlices
) -> tuple[_SliceKey, ...]:
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
