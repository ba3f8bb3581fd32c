"""Whether a savepoint may be removed, according to the table itself; the plan is the dry run.

A check may remove only a savepoint whose own mark allows it. The mark is read from the savepoint's
metadata on the timeline, which a lost topic or a forged event can't change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.events import SavepointMark
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, Timeline
from tidegate.hudi_reader import HudiTable
from tidegate.savepoints.further_requests import holder_of
from tidegate.savepoints.pins import newest_files, read_savepoints
from tidegate.storage import ParallelMap, join
from tidegate.tables.hudi import open_table
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Ended:
    """What the mark of a savepoint has to say, so that a check may remove it."""

    policy: str | None
    lifetime: timedelta | None


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """The removal of a savepoint: its instant on the timeline and its content."""

    instant: Instant
    """The savepoint in its furthest state."""
    content: bytes | None = None
    """The completed file's content; None: the savepoint is not completed."""

    @property
    def metadata(self) -> SavepointMetadata | None:
        """The savepoint's files and maker.

        Raises:
            FormatError: the completed file can't be read.
        """
        return None if self.content is None else SavepointMetadata.decode(self.content)

    @property
    def inflight(self) -> Instant:
        """The savepoint's inflight file on the timeline."""
        return Instant(self.instant.timestamp, Action.SAVEPOINT, InstantState.INFLIGHT)


def savepoint_on(timeline: Timeline, timestamp: str) -> Instant | None:
    """The savepoint on an instant, completed or not; None: there is none."""
    found = timeline.of_action(Action.SAVEPOINT)
    return next((savepoint for savepoint in found if savepoint.timestamp == timestamp), None)


def plan_removal(
    table: HudiTable, savepoint: Instant, ended: Ended | None, now: datetime
) -> RemovalPlan:
    """Plan a removal; `ended`: a check ended the savepoint, no person asks for it.

    Raises:
        Refused: the savepoint may not be removed.
        FormatError: a savepoint's file can't be read.
        NotFound: the savepoint was removed meanwhile.
    """
    check_no_restore(table.timeline)
    is_complete = savepoint.state is InstantState.COMPLETED
    plan = RemovalPlan(savepoint, table.read(savepoint) if is_complete else None)
    if ended is not None:
        _check_maker(plan, ended)
        check_claims(table, savepoint.timestamp, now)
    return plan


def check_claims(table: HudiTable, instant: str, now: datetime) -> None:
    """Check that no person has a claim on this savepoint.

    Raises:
        Refused: a person has a claim.
        FormatError: a claim can't be read, so it may still apply.
        TransientError: a claim was removed during the read.
    """
    claim = holder_of(table.storage, table.location, instant, now)
    if claim is None:
        return
    until = "" if claim.until is None else f" until {claim.until:%Y-%m-%dT%H:%M:%S%z}"
    raise Refused(
        Reason.NOT_OF_POLICY if claim.until is None else Reason.CLAIMED,
        f"{claim.by} also requested savepoint {instant} and wants it kept{until}",
    )


def check_no_restore(timeline: Timeline) -> None:
    """Check that no restore may need a savepoint.

    Raises:
        Refused: a restore is pending.
    """
    if timeline.pending_restores:
        raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")


def _check_maker(plan: RemovalPlan, ended: Ended) -> None:
    """Check with the savepoint's own file that it is the one that the check ended."""
    metadata, at = plan.metadata, plan.instant.timestamp
    if metadata is None:
        raise Refused(
            Reason.SAVEPOINT_INCOMPLETE,
            f"savepoint {at} was never completed, so its maker is unknown",
        )
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None or (mark.policy, mark.lifetime) != (ended.policy, ended.lifetime):
        wanted = f"of policy {ended.policy}" if ended.policy else "with this lifetime"
        raise Refused(
            Reason.NOT_OF_POLICY,
            f"savepoint {at} was made by {metadata.by or 'an unknown user'}, and its comment does"
            f" not mark it as one {wanted}",
        )


@dataclass(frozen=True, slots=True)
class PlannedRemoval:
    """The effect of a person's request to remove a savepoint."""

    made_by: str | None
    mark: SavepointMark | None
    files: int
    """Number of files that the savepoint keeps."""
    timeline_files: Sequence[str]
    """Paths of the removed files."""
    freed: Sequence[str]
    """Files (relative to the table) in neither the newest commit nor another savepoint."""
    freed_bytes: int


def plan_freeing(
    warehouse: Warehouse, location: str, instant: str, parallel_map: ParallelMap
) -> PlannedRemoval:
    """Plan the removal of a savepoint at a person's request. Changes nothing.

    Lists the table and reads the metadata of every savepoint.

    Raises:
        Refused: there is no such savepoint, or a restore is pending.
        FormatError: a file of the timeline can't be read.
        NotFound: a file of the timeline was removed meanwhile.
    """
    table = open_table(warehouse, location)
    check_no_restore(table.timeline)
    found = savepoint_on(table.timeline, instant)
    if found is None:
        raise Refused(Reason.NO_SUCH_SAVEPOINT, f"there is no savepoint {instant}")
    savepoints = {i.timestamp: metadata for i, metadata in read_savepoints(table)}
    own = savepoints.pop(instant, None)
    freed = newest_files(table, parallel_map).pinned(own.files) if own else {}
    for other in savepoints.values():
        for path, names in other.files.items():
            for name in names:
                freed.pop((path, name), None)
    files = {found, RemovalPlan(found).inflight}
    return PlannedRemoval(
        made_by=own.by if own else None,
        mark=SavepointMark.parse(own.comment)[0] if own else None,
        files=own.file_count if own else 0,
        timeline_files=sorted(table.path_of(file) for file in files),
        freed=sorted(join(path, name) if path else name for path, name in freed),
        freed_bytes=sum(freed.values()),
    )
