"""Requests: what people ask for is used once, and queued for the worker that it is for.

A request reaches its worker as it was published, so that the worker can verify its signature
itself. A restore whose worker says that it needs an approval waits here until another person
approves it; then it is queued again, with the approval among its task's grounds. A request that has
not begun can be withdrawn, a restore also rejected by an approver.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from tidegate.coordinator import running_tasks, tasks
from tidegate.coordinator.rows.records import dumps, hashed, loads
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE, Effects
from tidegate.coordinator.tasks import ANY, Queued
from tidegate.errors import PermanentError
from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningProgressed,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    CleaningUndoRequested,
    Command,
    DirectoriesCleaned,
    Event,
    QuarantineRemoved,
    RequestWithdrawn,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreDeclined,
    RestoreFailed,
    RestorePlanned,
    RestoreProgressed,
    RestoreRejected,
    RestoreRequested,
    SavepointCreated,
    SavepointRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
    SavepointRequested,
    TaskEnded,
    Withdrawal,
    WithdrawalRefused,
    WithdrawalRequested,
)
from tidegate.events.base import Answer, answered_by
from tidegate.events.cleanings import CleaningHeld, CleaningHoldRemoved, HoldRequest
from tidegate.events.fields import from_ms, to_ms
from tidegate.events.reasons import Reason
from tidegate.events.refusals import refusal
from tidegate.events.signature import Proof
from tidegate.events.topics import EVENT_TYPES, REQUEST_TOPIC
from tidegate.events.wire import Wire
from tidegate.runtime.authorization import Unauthorized

USED: Final = RowType("used", ("at",), key="id", indexes=("used_at on used (at)",))
"""A request that was used."""
AWAITING: Final = RowType(
    "awaiting",
    ("until", "expires"),
    key="id",
    has_body=True,
    indexes=("awaiting_until on awaiting (until)",),
)
"""A restore that needs an approval: what its task carried, and until when it waits. `until` is
`expires`, or NULL once it was approved."""
USED_FOR: Final = (REQUEST_TOPIC.retention or timedelta(0)) + timedelta(days=1)
"""A request's id is remembered for longer than its topic keeps it; an older one is refused."""
FOR_WORKERS: Final = (
    CleaningUndoRequested,
    RestoreApproved,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
)
_OF_SAVEPOINTS: Final = (
    SavepointCreated,
    SavepointRejected,
    SavepointRemoved,
    SavepointRemovalRejected,
)
ENDS: Final = (
    *(CleaningHeld, CleaningHoldRemoved),
    *(CleaningUndone, CleaningUndoPlanned, CleaningUndoRefused),
    *(RestoreApprovalRejected, RestoreCompleted, RestoreFailed, RestorePlanned, RestoreRejected),
    *_OF_SAVEPOINTS,
    *(RequestWithdrawn, WithdrawalRefused),
)
"""The last outcomes of requests. Rebuilt rows know from them what not to repeat."""
_ONCE: Final = (AbortedCleaningReleased, CleaningReleased, RestoreRequested)
PROGRESS: Final = (CleaningProgressed, RestoreProgressed)
ABOUT_REQUESTS: Final = (*FOR_WORKERS, RestoreDeclined, WithdrawalRequested)
NEED_A_TASK: Final = frozenset(
    {
        *ENDS,
        CleaningDeferred,
        CleaningProgressed,
        CleaningStarted,
        DirectoriesCleaned,
        QuarantineRemoved,
        RestoreAwaitingApproval,
        RestoreProgressed,
    }
)
"""Outcomes that count only while their task is running."""
COUNT_LATE: Final = frozenset({CleaningStarted, DirectoriesCleaned, QuarantineRemoved})
"""Of those, the ones that count later too: they report changes of a quarantine. They may be
redriven, and rows that are rebuilt from the inputs have no earlier tasks."""
ISSUE_AFTER: Final = frozenset({TaskEnded, *HoldRequest.__subclasses__(), *ABOUT_REQUESTS})
"""Events after which a task may be issued even if they led to no command."""
_USED_MS: Final = USED_FOR // timedelta(milliseconds=1)
_AT_ONCE: Final = 100
_AWAITING: Final = "select until, expires, body from awaiting where tbl = ? and id = ?"
_QUEUED: Final = (
    f"select id, body from queued indexed by queued_next where tbl = ? and lane = {ANY}"  # noqa: S608
)


class Requests:
    """A subject (see `tidegate.coordinator.subject`): requests for work, approvals, withdrawals.

    The loop calls `requested` for requests, with their messages.
    """

    consumes: tuple[type[Event], ...] = (
        *ABOUT_REQUESTS,
        *PROGRESS,
        *ENDS,
        RestoreAwaitingApproval,
        TaskEnded,
    )
    row_types: Sequence[RowType] = (*tasks.ROW_TYPES, USED, AWAITING)

    def __init__(self, wire: Wire) -> None:
        """Take how events are encoded."""
        self._wire = wire

    @staticmethod
    def is_used(request: Command, rows: Store, at: datetime) -> bool:
        """Whether a request was used; from now on it is.

        Raises:
            Unauthorized: it is so old that its id may have been forgotten.
        """
        table, number, now = request.table, hashed(request.event_id), to_ms(at)
        if _was_used(table, number, rows):
            return True
        # the newest is never forgotten: whatever it let be forgotten is refused by it
        [newest] = rows.one("select max(at) from used indexed by used_at")
        if now < (newest or 0) - _USED_MS:
            raise Unauthorized(
                Reason.REQUEST_TOO_OLD,
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

    def requested(self, request: Command, queued: Queued, rows: Store, at: datetime) -> Effects:
        """Queue a request, what it approves; or end the request that it withdraws."""
        if isinstance(request, RestoreApproved):
            return self._approved(request, queued, rows, at)
        if isinstance(request, Withdrawal):
            return self._withdrawn(request, queued.signed_by, rows, at)
        tasks.enqueue(request.table, queued, rows)
        return Effects()

    @staticmethod
    def _approved(request: RestoreApproved, approval: Queued, rows: Store, at: datetime) -> Effects:
        table, number = request.table, hashed(request.request)
        until, expires, body = rows.one(_AWAITING, table, number) or (None, None, None)
        waits = None if body is None else Queued.load(body)
        is_unknown = not _was_used(table, number, rows)
        if is_unknown or (waits and waits.location != request.location):
            reason = Reason.NO_SUCH_REQUEST
            text = "it was not requested for this table and location"
        elif waits is None or until is None:
            reason = Reason.NOT_AWAITING
            text = "it waits for no approval now: it has ended, or has one"
        elif until < to_ms(at):
            reason = Reason.APPROVAL_EXPIRED
            text = f"it had to be approved by {from_ms(until):%Y-%m-%dT%H:%M:%SZ}"
        else:
            rows.put("awaiting", table, number, (None, expires), body)
            approved = waits._replace(approval=request.event_id, grounds=[approval.original])
            tasks.enqueue_again(table, approved, rows)
            return Effects()
        message = f"the restore {request.request} can't be approved: {text}"
        return Effects(outcomes=[refusal(request, reason, message, SOURCE, at)])

    def _withdrawn(
        self, event: Withdrawal, signed_by: str | None, rows: Store, at: datetime
    ) -> Effects:
        """End a request that waits; stop it, if its task is running."""
        table, number = event.table, hashed(event.request)
        queued = {
            sequence: it
            for sequence, body in rows.all(_QUEUED, table)
            if (it := Queued.load(body)).command == event.request
        }
        until, _, body = rows.one(_AWAITING, table, number) or (None, None, "")
        awaiting = None if until is None else Queued.load(body)
        found = next(iter(queued.values()), awaiting)
        is_late = _was_used(table, number, rows)
        _, task = tasks.running(table, rows) or (0, None)
        is_running = task is not None and task.queued.command == event.request
        if task is not None and is_running:
            found = task.queued
        failed = running_tasks.failed(table, event.request, rows)
        if found is None and is_late:
            text = "it failed: discard its dead letter" if failed else "it has ended"
            return self._refused(event, Reason.TOO_LATE, text, at)
        if (
            found is None
            or found.location != event.location
            or (isinstance(event, RestoreDeclined) and found.kind != RestoreRequested.__name__)
        ):
            text = "it was not requested for this table and location"
            return self._refused(event, Reason.NO_SUCH_REQUEST, text, at)
        if found.has_begun:
            text = "it may have begun to change the table, and goes on"
            return self._refused(event, Reason.TOO_LATE, text, at)
        if is_running:
            before = rows.one("select body from stopping where tbl = ? and id = ?", table, number)
            asked = [*(loads(before[0]) if before else ())]
            asked.append([type(event).__name__, event, signed_by])
            rows.put("stopping", table, number, body=dumps(asked))
            return Effects()
        for sequence in queued:
            rows.drop("queued", table, sequence)
        for failed_task in failed:
            rows.drop("failed", table, failed_task)
        rows.drop("awaiting", table, number)
        declined = isinstance(event, RestoreDeclined)
        reason = Reason.DECLINED if declined else Reason.WITHDRAWN
        by = Proof(signed_by).named(event.requested_by)
        verb = "rejected" if declined else "withdrew"
        ended = self._end(table, found, reason, f"{by} {verb} it: {event.reason}", at)
        withdrawn = RequestWithdrawn.about(
            event, request=event.request, source=SOURCE, occurred_at=at
        )
        return Effects(outcomes=[ended, withdrawn])

    @staticmethod
    def _refused(event: Withdrawal, reason: Reason, text: str, at: datetime) -> Effects:
        message = f"the request {event.request} can't be ended: {text}"
        return Effects(outcomes=[refusal(event, reason, message, SOURCE, at)])

    def _end(
        self, table: str, queued: Queued, reason: Reason, message: str, at: datetime
    ) -> Answer:
        """The outcome of a request that ends before its worker has begun."""
        sent, _ = queued.original
        command = self._wire.deserialize(table.encode(), sent.value, sent.headers)
        if not isinstance(command, Command):  # only commands are queued
            raise PermanentError(f"{queued.command} is a {type(command).__name__}")
        return refusal(command, reason, message, SOURCE, at).to(command, queued.signed_by)

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Apply an outcome of a task: a restore waits for an approval, or others are moot."""
        if isinstance(event, TaskEnded):
            return self._ended(event, rows, at)
        if isinstance(event, ENDS):
            self._used(event, rows, at)
        carried = running_tasks.carried(event, rows)
        if carried is None:
            return Effects()
        if isinstance(event, PROGRESS):
            running_tasks.progressed(event.table, rows, at)
        elif isinstance(event, RestoreCompleted):
            return self._moot(event.table, event.caused_by, rows, at)
        elif isinstance(event, RestoreAwaitingApproval | RestoreApprovalRejected):
            self._awaits(event, carried, rows, at)
        return Effects()

    @staticmethod
    def _awaits(
        event: RestoreAwaitingApproval | RestoreApprovalRejected,
        carried: Queued,
        rows: Store,
        at: datetime,
    ) -> None:
        """The restore of the running task waits for its approval, or for another one."""
        table, number = event.table, hashed(carried.command)
        if _is_queued(table, carried.command, rows):  # a repeat: it was approved meanwhile
            return
        if isinstance(event, RestoreApprovalRejected):
            # a restore that was a dead letter has no row any more: without another approval it ends
            ended = to_ms(at), carried._replace(approval=None, grounds=()).body
            _, expires, body = rows.one(_AWAITING, table, number) or (None, *ended)
            rows.put("awaiting", table, number, (expires, expires), body)
        elif carried.approval is None:  # else a repeat, of the task before the approval
            until = to_ms(event.expires_at or event.occurred_at)
            waits = carried._replace(signed_by=event.signed_by, has_begun=False)
            rows.put("awaiting", table, number, (until, until), waits.body)
            rows.put("used", table, number, (to_ms(at),))  # the coordinator's own, too

    @staticmethod
    def _used(event: Answer, rows: Store, at: datetime) -> None:
        """What an outcome answers is used, and a cleaning that was undone is not repeated."""
        # a person's request gives a reason or a comment, if only an empty one; a check gives none
        if isinstance(event, _OF_SAVEPOINTS) and event.why is None:
            return  # there are as many as commits, and its repeat does nothing
        ids = set(answered_by(event))
        if isinstance(event, CleaningUndone):
            ids.add(event.cleaning)
            for task in running_tasks.failed(event.table, event.cleaning, rows):
                rows.drop("failed", event.table, task)  # its redrive does nothing
        for number in map(hashed, ids):
            if not _was_used(event.table, number, rows):
                rows.put("used", event.table, number, (to_ms(at),))

    @staticmethod
    def is_over(command: Command, rows: Store) -> bool:
        """Whether the coordinator's own command is not to be repeated: its cause was read again.

        It is a cleaning that people have undone, or a restore that has its outcome.
        """
        return isinstance(command, _ONCE) and _was_used(
            command.table, hashed(command.event_id), rows
        )

    def _moot(self, table: str, done: str | None, rows: Store, at: datetime) -> Effects:
        """Another restore is complete: the plan that was to be approved is void."""
        effects = Effects()
        waiting = rows.all(
            "select id, body from awaiting where tbl = ? and until is not null", table
        )
        for number, body in waiting:
            queued = Queued.load(body)
            if queued.command != done:
                rows.drop("awaiting", table, number)
                text = f"the restore {done} of the table is complete: review a new plan, then ask"
                ended = self._end(table, queued, Reason.PLAN_CHANGED, f"{text} again", at)
                effects.outcomes.append(ended)
        return effects

    def _ended(self, event: TaskEnded, rows: Store, at: datetime) -> Effects:
        """A task has ended, or was stopped."""
        found, table = running_tasks.ended(event, rows), event.table
        if found is None:
            return Effects(republish=running_tasks.again(event, rows))
        carried, outcomes = found
        number, effects = hashed(carried.command), Effects(outcomes=[*outcomes])
        # an approved restore that does not wait again has ended, or is a dead letter with its
        # approval, unless it was approved once more
        if carried.approval and not _is_queued(table, carried.command, rows):
            until, *_ = rows.one(_AWAITING, table, number) or (None,)
            if until is None:
                rows.drop("awaiting", table, number)
        stopping = rows.one("select body from stopping where tbl = ? and id = ?", table, number)
        if stopping is not None:
            rows.drop("stopping", table, number)
            for asked in loads(stopping[0]):
                effects.add(self._settled(*asked, rows=rows, at=at))
        return effects

    def _settled(
        self,
        kind: str,
        fields: dict[str, object],
        signed_by: str | None,
        *,
        rows: Store,
        at: datetime,
    ) -> Effects:
        """The answer to a withdrawal whose task has ended or was stopped."""
        event = EVENT_TYPES[kind].model_validate(fields)
        if not isinstance(event, Withdrawal):
            raise PermanentError(f"a {kind} is not a withdrawal")
        effects = self._withdrawn(event, signed_by, rows, at)
        effects.name_asker(event, signed_by)
        return effects

    def restored(self, rows: Store) -> None:
        """Nothing is derived."""

    def next_due(self, rows: Store) -> int | None:
        """When the first restore, or task, has waited too long."""
        [until] = rows.one("select min(until) from awaiting indexed by awaiting_until")
        return min((due for due in (until, running_tasks.next_overdue(rows)) if due), default=None)

    def due(self, rows: Store, at: datetime) -> Effects:
        """End the restores that were not approved in time; repeat overdue tasks."""
        effects = running_tasks.overdue(rows, at, _AT_ONCE)
        for table, number, body in rows.all(
            "select tbl, id, body from awaiting indexed by awaiting_until where until <= ?"
            " order by until limit ?",
            *(to_ms(at), _AT_ONCE),
        ):
            rows.drop("awaiting", table, number)
            message = "no second person approved the restore in time: request it again"
            ended = self._end(table, Queued.load(body), Reason.APPROVAL_EXPIRED, message, at)
            effects.outcomes.append(ended)
        return effects


def _is_queued(table: str, command: str, rows: Store) -> bool:
    """Whether a command is queued; that of the running task is if it was approved meanwhile."""
    found = rows.all(_QUEUED, table)
    return any(Queued.load(body).command == command for _, body in found)


def _was_used(table: str, number: int, rows: Store) -> bool:
    """Whether a command was used; `number` is its hashed id."""
    return rows.one("select 1 from used where tbl = ? and id = ?", table, number) is not None
