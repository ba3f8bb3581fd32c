"""What people request: each request is used once, and a restore may need an approval.

A request that a worker carries out is queued as it was published, so that the worker can verify its
signature itself. A restore whose worker says that it needs an approval waits here until another
person approves it; then it is queued again, with the approval among its task's grounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from tidegate.coordinator import tasks
from tidegate.coordinator.alarms import SOURCE
from tidegate.coordinator.holds import hashed
from tidegate.coordinator.store import Kind, Store, dumps, loads
from tidegate.coordinator.subject import Effects, milliseconds, moment
from tidegate.coordinator.tasks import ANY, Queued, Tasks, as_json
from tidegate.errors import PermanentError
from tidegate.events import (
    CleaningUndoRequested,
    Command,
    Event,
    OriginalMessage,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreRejected,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
    TaskEnded,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import refusal
from tidegate.events.topics import REQUEST_TOPIC

USED: Final = Kind("used", ("at",), key="id", indexes=("used_at on used (at)",))
"""A request that was used."""
AWAITING: Final = Kind(
    "awaiting",
    ("until",),
    key="id",
    has_body=True,
    indexes=("awaiting_until on awaiting (until)",),
)
"""A restore that needs an approval: what its task carried, what its end repeats, and until when it
waits; `until` is NULL once it was approved."""
USED_FOR: Final = (REQUEST_TOPIC.retention or timedelta(0)) + timedelta(days=1)
"""A request's id is remembered for longer than its topic keeps it; an older one is refused."""
FOR_WORKERS: Final = (
    CleaningUndoRequested,
    RestoreApproved,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
)
_USED_MS: Final = USED_FOR // timedelta(milliseconds=1)
_AT_ONCE: Final = 100
_AWAITING: Final = "select until, body from awaiting where tbl = ? and id = ?"


class Requests:
    """A subject (see `tidegate.coordinator.subject`): requests for work, and approvals.

    The loop calls `requested` for requests, with their messages, and `ended` for ends of tasks.
    """

    consumes: tuple[type[Event], ...] = (
        *FOR_WORKERS,
        RestoreApprovalRejected,
        RestoreAwaitingApproval,
        TaskEnded,
    )
    kinds: Sequence[Kind] = (*tasks.KINDS, USED, AWAITING)

    @staticmethod
    def is_used(request: Command, rows: Store, at: datetime) -> bool:
        """Whether a request was used; from now on it is.

        Raises:
            PermanentError: it is so old that its id may have been forgotten.
        """
        table, number, now = request.table, hashed(request.event_id), milliseconds(at)
        if rows.one("select 1 from used where tbl = ? and id = ?", table, number) is not None:
            return True
        # the newest is never forgotten: whatever it let be forgotten is refused by it
        [newest] = rows.one("select max(at) from used indexed by used_at")
        if now < (newest or 0) - _USED_MS:
            raise PermanentError(
                f"the broker took this request at {at:%Y-%m-%dT%H:%M:%SZ}, more than"
                f" {USED_FOR.days} days before another: it may have been used",
            )
        rows.put("used", table, number, (now,))
        for old in rows.all(
            "select tbl, id from used indexed by used_at where at < ? order by at limit ?",
            *(now - _USED_MS, _AT_ONCE),
        ):
            rows.drop("used", *old)
        return False

    @staticmethod
    def requested(
        request: Command, original: OriginalMessage, rows: Store, at: datetime
    ) -> Effects:
        """Queue a request, or what it approves."""
        if not isinstance(request, RestoreApproved):
            Tasks.queue(request, original, rows)
            return Effects()
        table, number = request.table, hashed(request.request)
        until, body = rows.one(_AWAITING, table, number) or (None, "[null]")
        waits = loads(body)[0]
        why: tuple[Reason, str] | None = None
        is_known = rows.one("select 1 from used where tbl = ? and id = ?", table, number)
        if not is_known or (waits and waits["location"] != request.location):
            why = Reason.NO_SUCH_REQUEST, "it was not requested for this table and location"
        elif until is None:
            why = Reason.NOT_AWAITING, "it waits for no approval now: it has ended, or has one"
        elif until < milliseconds(at):
            why = (
                Reason.APPROVAL_EXPIRED,
                f"it had to be approved by {moment(until):%Y-%m-%dT%H:%M:%SZ}",
            )
        if why is not None:
            reason, text = why
            message = f"the restore {request.request} can't be approved: {text}"
            return Effects(outcomes=[refusal(request, reason, message, SOURCE, at)])
        rows.put("awaiting", table, number, (None,), body)
        grounds = [as_json(original)]
        approved = Queued(**waits)._replace(approval=request.event_id, grounds=grounds)
        Tasks.put(table, ANY, approved, rows)
        return Effects()

    @staticmethod
    def handle(event: Event, rows: Store, at: datetime) -> Effects:
        """Let a restore wait for an approval, or for another one."""
        carried = Tasks.carried(event, rows)
        if carried is None:
            return Effects()
        table, number = event.table, hashed(carried.command)
        if isinstance(event, RestoreAwaitingApproval):
            until = milliseconds(event.expires_at or event.occurred_at)
            repeated = {"location", "savepoint", "requested_by", "why", "signed_by"}
            end = event.model_dump(mode="json", include=repeated)
            body = dumps([carried._asdict(), end, until])
            rows.put("awaiting", table, number, (until,), body)
            rows.put("used", table, number, (milliseconds(at),))  # the coordinator's own, too
        elif (found := rows.one(_AWAITING, table, number)) is not None:  # an approval was refused
            rows.put("awaiting", table, number, (loads(found[1])[2],), found[1])
        return Effects()

    @staticmethod
    def ended(table: str, carried: Queued, rows: Store) -> None:
        """A task has ended: an approved restore that does not wait again is over."""
        number = hashed(carried.command)
        until, _ = rows.one(_AWAITING, table, number) or (None, None)
        if carried.approval and until is None:
            rows.drop("awaiting", table, number)

    def restored(self, rows: Store) -> None:
        """Nothing is derived."""

    @staticmethod
    def next_due(rows: Store) -> int | None:
        """When the first restore has waited too long."""
        due: int | None = rows.one("select min(until) from awaiting indexed by awaiting_until")[0]
        return due

    @staticmethod
    def due(rows: Store, at: datetime) -> Effects:
        """End the restores that were not approved in time."""
        effects = Effects()
        for table, number, body in rows.all(
            "select tbl, id, body from awaiting indexed by awaiting_until where until <= ?"
            " order by until limit ?",
            *(milliseconds(at), _AT_ONCE),
        ):
            rows.drop("awaiting", table, number)
            queued, end, _ = loads(body)
            rejected = RestoreRejected(
                table=table,
                caused_by=queued["command"],
                occurred_at=at,
                source=SOURCE,
                reason=Reason.APPROVAL_EXPIRED,
                message="no second person approved the restore in time: request it again",
                **end,
            )
            effects.outcomes.append(rejected)
        return effects
