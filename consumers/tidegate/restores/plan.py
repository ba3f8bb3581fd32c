"""The plan of a restore as a value; the plan is the dry run. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Final, NamedTuple

from pydantic import Field, TypeAdapter

from tidegate.bounded_json import parse_json
from tidegate.hudi.commit import CommitMetadata, WriteStat
from tidegate.hudi.file_slice import instant_of_data_file
from tidegate.hudi.instant import COMPLETED_AS, Action, Instant, InstantState, Layout
from tidegate.hudi.rollback import InstantInfo, RestorePlanFile
from tidegate.hudi_reader.partitions import PartitionFiles

METADATA_TABLE: Final = ".hoodie/metadata"
MARKERS: Final = ".hoodie/.temp"

_LARGEST: Final = 16 * 2**20
STEPS_KEY: Final = "tidegate.steps"
COMMAND_KEY: Final = "tidegate.command"
"""Keys in the header of the plan that a restore puts on the timeline."""


class _PlannedFile(NamedTuple):
    """A file to delete: path relative to the table, size in bytes (0 if it is gone already)."""

    partition: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A rollback block to append to a file slice, as the log file `path` relative to the table.

    `is_there`: an earlier attempt, by Tidegate or Hudi, has appended it.
    """

    partition: str
    path: str
    is_there: bool

    @property
    def slice(self) -> list[str]:
        """The slice that the block is appended to, regardless of the log file's version."""
        return [self.partition, self.path.rpartition(".log.")[0]]


@dataclass(frozen=True)
class Step:
    """One instant to roll back: the data files to delete, and the blocks to append first."""

    target: InstantInfo
    files: tuple[_PlannedFile, ...]
    blocks: tuple[PlannedBlock, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All files that it deletes or creates, except blocks that an earlier attempt created."""
        new = (block.path for block in self.blocks if not block.is_there)
        return (*(file.path for file in self.files), *new)

    @cached_property
    def summary(self) -> _Summary:
        """The summary of the step that enters the plan's id."""
        names: list[Sequence[object]] = [file[:2] for file in self.files]
        names += [block.slice for block in self.blocks]
        return _Summary(
            timestamp=self.target.timestamp,
            action=self.target.action,
            files=len(self.files),
            bytes=sum(file.size for file in self.files),
            digest=hashlib.sha256(json.dumps(names).encode()).hexdigest(),
        )


_Text = Annotated[str, Field(strict=True)]
_Count = Annotated[int, Field(strict=True, ge=0)]


class _Summary(NamedTuple):
    """A step in brief; `digest` is a hash over the paths of its files."""

    timestamp: _Text
    action: _Text
    files: _Count
    bytes: _Count
    digest: _Text


_SUMMARIES: Final = TypeAdapter(list[_Summary])


@dataclass(frozen=True, slots=True)
class PlannedRestore:
    """The instants to roll back, in order (newest first).

    `resumes` is the pending restore of an earlier attempt, and `begun_for` its command. In that
    case `plan_id`, `files` and `bytes` are from the earlier attempt, if it recorded them, and
    `steps` are the remaining ones.

    `approved_by` has the ids of the plans that cover this one: an approval of any of them approves
    this restore.

    `drops_metadata_table`: the metadata table is removed. `metadata_table` is a message about it.
    `by_hudi`: Hudi's own procedure carries the plan out; the files are those that it should delete.
    """

    savepoint: str
    steps: tuple[Step, ...]
    plan_id: str
    files: int
    bytes: int
    approved_by: frozenset[str]
    resumes: str | None = None
    begun_for: str | None = None
    drops_metadata_table: bool = False
    metadata_table: str | None = None
    by_hudi: bool = False

    @property
    def targets(self) -> tuple[InstantInfo, ...]:
        """The instants, without their files."""
        return tuple(step.target for step in self.steps)


def plan_of(savepoint: str, steps: tuple[Step, ...]) -> PlannedRestore:
    """Make a plan of steps, with totals and an id, which is a hash of its content."""
    summaries = [step.summary for step in steps]
    plan_id = _plan_id(savepoint, summaries)
    return PlannedRestore(
        savepoint=savepoint,
        steps=steps,
        plan_id=plan_id,
        files=sum(summary.files for summary in summaries),
        bytes=sum(summary.bytes for summary in summaries),
        approved_by=frozenset({plan_id}),
    )


def summarise(plan: PlannedRestore) -> str:
    """The steps of a plan as text, for a later attempt, whose `resume` reads it."""
    return json.dumps([step.summary for step in plan.steps])


def resume(
    rest: PlannedRestore,
    pending: Instant,
    file: RestorePlanFile,
    completed: AbstractSet[str],
    gone: AbstractSet[str],
) -> PlannedRestore:
    """The rest of a restore, as the continuation of an earlier attempt.

    The rest was planned and checked again; only the order is taken from the earlier attempt,
    because instants that it unpublished have lost their completion times. Instants that it did not
    know come first.

    The plan's id is a hash of its summary, so the summary of the earlier attempt identifies its
    plan. An approval of that plan covers the rest if the plan contains all of it.

    Args:
        rest: The plan for the current table.
        pending: The restore's instant.
        file: The plan on the timeline; not trusted.
        completed: The instants of the rest that are not unpublished yet.
        gone: The instants in `file` that are no longer on the timeline: already rolled back.
    """
    done = tuple(Step(i, ()) for i in file.instants if i.timestamp in gone)
    begun = {i.timestamp: i for i in file.instants}
    places = {i.timestamp: place for place, i in enumerate(file.instants)}
    left = sorted(rest.steps, key=lambda step: places.get(step.target.timestamp, -1))
    resumed = replace(
        rest,
        steps=done + tuple(_as_begun(step, begun.get(step.target.timestamp)) for step in left),
        resumes=pending.timestamp,
        begun_for=file.header.get(COMMAND_KEY),
    )
    summaries = _read_summaries(file.header.get(STEPS_KEY, ""))
    if not summaries or not _covers(summaries, rest, completed):
        return resumed
    plan_id = _plan_id(rest.savepoint, summaries)
    return replace(
        resumed,
        plan_id=plan_id,
        files=sum(summary.files for summary in summaries),
        bytes=sum(summary.bytes for summary in summaries),
        approved_by=rest.approved_by | {plan_id},
    )


def _as_begun(step: Step, known: InstantInfo | None) -> Step:
    """The step with the action of its completed instant, if the earlier attempt unpublished it."""
    pending = Action(step.target.action)
    unpublished = known is not None and COMPLETED_AS.get(pending) == known.action
    return replace(step, target=known) if known is not None and unpublished else step


def _plan_id(savepoint: str, summaries: Iterable[_Summary]) -> str:
    content = json.dumps([savepoint, list(summaries)])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _covers(
    summaries: Iterable[_Summary], rest: PlannedRestore, completed: AbstractSet[str]
) -> bool:
    known = {summary.timestamp: summary for summary in summaries}
    for step in rest.steps:
        approved = known.get(step.target.timestamp)
        if approved is None:
            return False
        # some files of an unpublished instant may already be gone
        if approved.timestamp in completed and approved.digest != step.summary.digest:
            return False
    return True


def _read_summaries(text: str) -> Sequence[_Summary]:
    """Parse the text of `summarise`; empty if it is invalid, as in restores that Hudi began."""
    try:
        return _SUMMARIES.validate_python(parse_json(text, "steps", _LARGEST))
    except (ValueError, RecursionError):
        return ()


def files_by_instant(
    timestamps: AbstractSet[str], partitions: Iterable[PartitionFiles]
) -> Mapping[str, Sequence[_PlannedFile]]:
    """Group the data files of some instants by the instant in their names, in one pass."""
    found = defaultdict[str, list[_PlannedFile]](list)
    for partition in partitions:
        for name, size in partition.sizes.items():
            instant = instant_of_data_file(name)
            if instant is not None and instant in timestamps:
                path = path_of(partition.path, name)
                found[instant].append(_PlannedFile(partition.path, path, size))
    return found


def plan_step(
    instant: Instant, commit: CommitMetadata | None, listed: Iterable[_PlannedFile]
) -> Step:
    """Find the data files of one instant: those of `files_by_instant`, and those in its metadata.

    A requested write has no files, except for a compaction: in version 6, log files written since
    are named after it. A completed write also names its files in its metadata; files that are named
    there but gone count as removed. Hudi's restore leaves change data behind, because it does not
    find them in the metadata; here they are deleted with the commit.
    """
    target = InstantInfo(instant.timestamp, str(instant.action))
    if instant.state is InstantState.REQUESTED and instant.action is not Action.COMPACTION:
        return Step(target, ())
    found = {file.path: file for file in listed}
    if commit is not None:
        gone = [stat for stat in commit.writes if stat.path not in found]
        for file in _by_metadata(instant.timestamp, gone):
            found.setdefault(file.path, file)
    return Step(target, tuple(found[path] for path in sorted(found)))


def _by_metadata(timestamp: str, writes: Iterable[WriteStat]) -> Iterable[_PlannedFile]:
    for stat in writes:
        if instant_of_data_file(stat.path.rpartition("/")[2]) == timestamp:
            yield _PlannedFile(stat.partition, stat.path, 0)


def path_of(partition: str, name: str) -> str:
    """The path of a data file relative to its table."""
    return f"{partition}/{name}" if partition else name


FILES_PER_PASS: Final = 50_000
"""A pass gets no further instant beyond this number of files: progress is published in between."""
_JOIN: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


def passes(
    steps: Sequence[Step], files: Mapping[str, Sequence[Instant]], layout: Layout
) -> Iterator[tuple[Step, ...]]:
    """Divide the steps of a plan into passes over their files, in their order.

    A pass first unpublishes its instants, newest first. Then it removes all their data files in one
    parallel job, and last their pending files. A crash in between leaves several inflight writes,
    whose files both Tidegate and Hudi find by listing. Hudi then continues with the newest, and
    refuses an instant while a later one is on the timeline.

    Hudi identifies an instant by time and action. So compactions and clusterings, whose action
    changes when they are unpublished, get a pass of their own. So do instants that need rollback
    blocks, because blocks are numbered in sequence.

    Args:
        steps: The steps.
        files: The timeline's files of every write, by timestamp.
        layout: The timeline's layout.
    """
    group, count = list[Step](), 0
    for step in steps:
        descends = bool(group) and step.target.timestamp < group[-1].target.timestamp
        fits = count + len(step.files) <= FILES_PER_PASS
        joins = descends and fits and all(_may_join(s, files, layout) for s in (group[-1], step))
        if group and not joins:
            yield tuple(group)
            group, count = [], 0
        group.append(step)
        count += len(step.files)
    if group:
        yield tuple(group)


def _may_join(step: Step, files: Mapping[str, Sequence[Instant]], layout: Layout) -> bool:
    actions = {file.action for file in files.get(step.target.timestamp, ())}
    is_appended = layout is Layout.ONE and Action.DELTA_COMMIT in actions
    keeps_its_action = len(actions) <= 1 and actions <= _JOIN
    return keeps_its_action and not is_appended and not step.blocks
