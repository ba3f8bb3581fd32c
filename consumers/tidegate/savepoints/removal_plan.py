"""Whether a savepoint may be removed, by what the table itself says; the plan is the dry run.

A service may remove only what its own mark allows. Who made a savepoint, and for which tiers, is
read from its metadata on the timeline, which no lost topic and no forged event can change.
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
    """The removal of a savepoint: what is on the timeline, and what it says of itself."""

    instant: Instant
    """The savepoint in its furthest state."""
    content: bytes | None = None
    """Of the completed file; None: there is none."""

    @property
    def metadata(self) -> SavepointMetadata | None:
        """What the savepoint keeps, and who made it.

        Raises:
            FormatError: it can't be read.
        """
        return None if self.content is None else SavepointMetadata.decode(self.content)

    @property
    def inflight(self) -> Instant:
        """Its other file on the timeline."""
        return Instant(self.instant.timestamp, Action.SAVEPOINT, InstantState.INFLIGHT)


def savepoint_on(timeline: Timeline, timestamp: str) -> Instant | None:
    """The savepoint of an instant, completed or not."""
    found = timeline.of_action(Action.SAVEPOINT)
    return next((each for each in found if each.timestamp == timestamp), None)


def plan_removal(
    table: HudiTable, savepoint: Instant, command: SavepointRemovalRequested, now: datetime
) -> RemovalPlan:
    """Check that this savepoint may be removed for this request.

    Raises:
        Refused: it may not.
        FormatError: a savepoint's file can't be read.
        NotFound: it was removed meanwhile.
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
    """Whether a service asks, which may remove only what it is allowed to; a person may any."""
    return command.policy is not None or command.by_lifetime


def _check_time(plan: RemovalPlan, command: SavepointRemovalRequested, now: datetime) -> None:
    """Check with a second clock that the time of a savepoint has come.

    The service that asks knows the broker's clock alone: if that jumps ahead, every lifetime seems
    to be over. Differences that clocks may have delay nothing.
    """
    if is_after(command.occurred_at, now):
        raise Refused(
            Reason.NOT_DUE,
            f"{command.source} asked at {command.occurred_at:%Y-%m-%dT%H:%M:%S%z}, and it is"
            f" {now:%Y-%m-%dT%H:%M:%S%z} here",
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
    """Check that no person asked for this savepoint, too.

    Raises:
        Refused: one did.
        FormatError: nobody can say.
        TransientError: the wish went while it was read.
    """
    if not is_by_service(command):
        return
    claim = claimant(table.storage, table.location, command.instant, now)
    if claim is None:
        return
    until = "" if claim.until is None else f" until {claim.until:%Y-%m-%dT%H:%M:%S%z}"
    raise Refused(
        Reason.NOT_OF_POLICY if claim.until is None else Reason.CLAIMED,
        f"{claim.by} asked for savepoint {command.instant} when it was there already, and wants it"
        f" kept{until}",
    )


def check_no_restore(timeline: Timeline) -> None:
    """Check that no restore needs a savepoint.

    Raises:
        Refused: one is pending.
    """
    if timeline.pending_restores:
        raise Refused(Reason.RESTORE_PENDING, "a restore of this table has not completed yet")


def _check_maker(table: HudiTable, plan: RemovalPlan, command: SavepointRemovalRequested) -> None:
    metadata, at = plan.metadata, plan.instant.timestamp
    if metadata is None:
        raise Refused(
            Reason.SAVEPOINT_INCOMPLETE,
            f"savepoint {at} was never completed, so it does not say who made it",
        )
    mark, _ = SavepointMark.parse(metadata.comment)
    if mark is None or mark.policy != command.policy:
        wanted = f"of policy {command.policy}" if command.policy else "with a lifetime"
        raise Refused(
            Reason.NOT_OF_POLICY,
            f"savepoint {at} was made by {metadata.by or 'nobody knows whom'}, and its comment does"
            f" not say that it is one {wanted}",
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
    """The tiers of which the table has no newer savepoint of the same policy."""
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
