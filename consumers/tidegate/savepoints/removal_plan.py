"""Whether a savepoint may be removed, according to the table itself; the plan is the dry run.

A service may remove only savepoints that its own mark allows. The maker and the tiers are read from
the savepoint's metadata on the timeline, which a lost topic or a forged event can't change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.events import SavepointMark, SavepointRemovalRequested
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, Instant, InstantState, SavepointMetadata, Timeline
from tidegate.hudi.instant_time import is_after
from tidegate.hudi_reader import HudiTable
from tidegate.savepoints.claims import claimant
from tidegate.savepoints.pins import made_at, read_savepoints
from tidegate.savepoints.retention import end_of
from tidegate.tables.refusal import Refused


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
    table: HudiTable, savepoint: Instant, command: SavepointRemovalRequested, now: datetime
) -> RemovalPlan:
    """Plan a removal after a check that the request may remove this savepoint.

    Raises:
        Refused: it may not.
        FormatError: a savepoint's file can't be read.
        NotFound: the savepoint was removed meanwhile.
    """
    check_no_restore(table.timeline)
    is_complete = savepoint.state is InstantState.COMPLETED
    plan = RemovalPlan(savepoint, table.read(savepoint) if is_complete else None)
    if is_by_service(command):
        _check_maker(table, plan, command)
        _check_time(plan, command, now)
        check_claims(table, command, now)
    return plan


def is_by_service(command: SavepointRemovalRequested) -> bool:
    """Whether a service asks. Unlike a person, it may not remove every savepoint."""
    return command.policy is not None or command.by_lifetime


def _check_time(plan: RemovalPlan, command: SavepointRemovalRequested, now: datetime) -> None:
    """Check with a second clock that a savepoint is due for removal.

    The requesting service knows only the broker's clock: if that jumps ahead, every lifetime seems
    to be over. Ordinary clock differences delay nothing.
    """
    if is_after(command.occurred_at, now):
        raise Refused(
            Reason.NOT_DUE,
            f"{command.source} requested it at {command.occurred_at:%Y-%m-%dT%H:%M:%S%z}, which is"
            f" later than this service's time, {now:%Y-%m-%dT%H:%M:%S%z}",
        )
    metadata = plan.metadata
    mark, _ = SavepointMark.parse(metadata.comment) if metadata else (None, "")
    if metadata is None or mark is None or mark.lifetime is None or mark.policy is not None:
        return
    ends = end_of(made_at(metadata), mark.lifetime)
    if is_after(ends, now):
        raise Refused(
            Reason.NOT_DUE,
            f"savepoint {plan.instant.timestamp} is kept until {ends:%Y-%m-%dT%H:%M:%S%z}",
        )


def check_claims(table: HudiTable, command: SavepointRemovalRequested, now: datetime) -> None:
    """Check that no person has a claim on this savepoint, if a service wants to remove it.

    Raises:
        Refused: a person has a claim.
        FormatError: a claim can't be read, so it may still apply.
        TransientError: a claim was removed during the read.
    """
    if not is_by_service(command):
        return
    claim = claimant(table.storage, table.location, command.instant, now)
    if claim is None:
        return
    until = "" if claim.until is None else f" until {claim.until:%Y-%m-%dT%H:%M:%S%z}"
    raise Refused(
        Reason.NOT_OF_POLICY if claim.until is None else Reason.CLAIMED,
        f"{claim.by} also requested savepoint {command.instant} and wants it kept{until}",
    )


def check_no_restore(timeline: Timeline) -> None:
    """Check that no restore may need a savepoint.

    Raises:
        Refused: a restore is pending.
    """
    if timeline.pending_restores:
        raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")


def _check_maker(table: HudiTable, plan: RemovalPlan, command: SavepointRemovalRequested) -> None:
    metadata, at = plan.metadata, plan.instant.timestamp
    if metadata is None:
        raise Refused(
            Reason.SAVEPOINT_INCOMPLETE,
            f"savepoint {at} was never completed, so its maker is unknown",
        )
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None or mark.policy != command.policy:
        wanted = f"of policy {command.policy}" if command.policy else "with a lifetime"
        raise Refused(
            Reason.NOT_OF_POLICY,
            f"savepoint {at} was made by {metadata.by or 'an unknown user'}, and its comment does"
            f" not mark it as one {wanted}",
        )
    if mark.policy is None:
        return
    tiers = sorted(set(mark.tiers) & set(command.tiers))
    if last := _without_successor(table, at, mark, tiers):
        raise Refused(
            Reason.LAST_OF_TIER,
            f"savepoint {at} is the newest of policy {mark.policy} for {', '.join(last)}",
        )


def _without_successor(
    table: HudiTable, at: str, mark: SavepointMark, tiers: Sequence[str]
) -> list[str]:
    """The tiers for which the table has no newer savepoint of the same policy."""
    missing, own = set(tiers), (mark.decided_at, at)
    for instant, metadata in read_savepoints(table, newest_first=True):
        if not missing:
            break
        other, _ = SavepointMark.parse(metadata.comment)
        if other is not None and other.policy == mark.policy and _order(other, instant) > own:
            missing -= set(other.tiers)
    return sorted(missing)


def _order(mark: SavepointMark, instant: Instant) -> tuple[datetime, str]:
    return mark.decided_at, instant.timestamp
