"""The restorer: restores a table to a savepoint, or publishes why it refuses."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from tidegate.errors import ConfinementError, FormatError, PermanentError, TransientError
from tidegate.errors.commands import command_line
from tidegate.events import (
    Command,
    InstantRef,
    Outcome,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreFailed,
    RestorePlanned,
    RestoreProgressed,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.events.fields import elapsed_ms
from tidegate.events.reasons import Reason
from tidegate.events.restores import OfApproval
from tidegate.hudi.instant import Instant
from tidegate.hudi.rollback import InstantInfo, RestoreMetadata, RollbackMetadata
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.approval import check_approval, check_plan
from tidegate.restores.checks import check_seen
from tidegate.restores.context import RestoreContext
from tidegate.restores.hudi_engine import Session
from tidegate.restores.liveness import check_writers, holding_lock, removing_left_locks
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.preparation import prepare
from tidegate.restores.repeats import previous_restore, started_at
from tidegate.restores.run import RestoreRun
from tidegate.restores.settings import RestoreRule, RestoreSettings
from tidegate.runtime.protocols import PROGRESS_EVERY, Published
from tidegate.storage import ParallelMap
from tidegate.tables.claim import HUDI, Claim, Task
from tidegate.tables.hudi import claim_table, open_table, refusing_unreadable
from tidegate.tables.refusal import Refused, readable
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse
from tidegate.tables.warehouse.roots import spellings_of


@dataclass(slots=True)
class _Needs:
    """Whether a request needs an approval, and the one that it has."""

    rule: RestoreRule | None
    request: Published
    approval: RestoreApproved | None = None


class _RestoreClaim(Claim):
    """The claim of a restorer's task."""

    def has_begun(self, number: int, command: str) -> bool:  # noqa: ARG002 - any task of the request
        """Whether a restore for the request was put on the timeline, by any of its tasks.

        A pending restore counts, too: the request is recorded after the restore is on the timeline.
        """
        location = self.folder.removesuffix(f"/{HUDI}")
        try:
            table = open_table(self.warehouse, location, self.task.table, any_kind=True)
            begun = started_at(self.warehouse, location, command)
        except FormatError as error:  # it can't be known now
            raise TransientError(str(error)) from error
        return begun is not None or bool(table.timeline.pending_restores)


class Restorer:
    """Carries out RestoreRequested, for some tables only once a second person has approved it.

    The outcome is RestorePlanned if the request is for a plan only, or if it has neither
    `expected_plan` nor `seen_up_to`; RestoreRejected if a check fails; otherwise RestoreStarted,
    followed by RestoreCompleted or RestoreFailed, with RestoreProgressed from time to time.

    The next request to the same savepoint resumes an interrupted restore, also in another process.
    A request to the savepoint to which the table was just restored gets a RestoreCompleted with
    `already_done`; so does a repeat of a request that was carried out.

    If the settings require an approval, the outcome of a request is RestoreAwaitingApproval. Once
    another person approves it, its task comes again with the RestoreApproved among its grounds: the
    outcomes have the request's id as their cause, and name both. The outcome of an approval that
    does not count is RestoreApprovalRejected.
    """

    name: ClassVar[str] = "restorer"
    consumes: ClassVar[tuple[type[Command], ...]] = (RestoreRequested,)

    def __init__(
        self,
        warehouse: Warehouse,
        parallel_map: ParallelMap,
        clock: Callable[[], datetime],
        settings: RestoreSettings | None = None,
        hudi: Session | None = None,
    ) -> None:
        """Take the warehouse, the parallel map, a clock (aware times), and the settings.

        Their rules have every spelling of the directories (`every_spelling`). Without `hudi`,
        Hudi's own procedure is never used.
        """
        self.context = RestoreContext(
            warehouse, parallel_map, clock, settings or RestoreSettings(), hudi=hudi
        )

    def claim(self, command: Command, task: Task) -> Claim:
        """Claim the table."""
        return claim_table(self.context.warehouse, command.location, task, _RestoreClaim)

    def execute(
        self, command: Command, claim: AnyClaim = NO_CLAIM, grounds: Sequence[Published] = ()
    ) -> Iterator[Outcome]:
        """Plan, check and restore.

        Raises:
            Overtaken, AlreadyDone: another task, or another worker of this one, has the table.
            PermanentError: the command is not a RestoreRequested.
            TransientError: the table changed, or a file was removed meanwhile; try again.
        """
        if not isinstance(command, RestoreRequested):
            raise PermanentError(f"{self.name} can't carry out a {type(command).__name__}")
        request, *approvals = grounds or [Published(command, command.occurred_at)]
        rule = self.context.settings.rule_of(None, *spellings_of(command.location))
        needs = _Needs(rule if rule and rule.approval else None, request)
        if not approvals:
            yield from self._answers(command, claim, needs)
            return
        signer, of = approvals[0].signer, approvals[0].command
        try:
            needs.approval = check_approval(needs.rule, approvals[0], request)
        except Refused as refused:
            yield self._approval_rejected(of, command, refused).to(of, signer)
            return
        under = {"approval": of.event_id, "approved_by": of.asked_by, "approval_signed_by": signer}
        for outcome in self._answers(command, claim, needs):
            if isinstance(outcome, OfApproval):
                yield type(outcome).model_validate(outcome.model_dump() | under)
            elif isinstance(outcome, RestoreApprovalRejected):
                yield outcome.to(of, signer)
            else:
                yield outcome

    def _answers(
        self, command: RestoreRequested, claim: AnyClaim, needs: _Needs
    ) -> Iterator[Outcome]:
        """The outcomes of a request, with its approval or before it has one."""
        try:
            with refusing_unreadable():
                if command.plan_only:  # changes nothing
                    yield from self._restore(command, claim, needs)
                else:
                    with removing_left_locks(self.context, command.location):
                        yield from self._restore(command, claim, needs)
        except Refused as refused:
            yield RestoreRejected.about(command, **self._fields(command), **refused.fields)

    def _restore(
        self, command: RestoreRequested, claim: AnyClaim, needs: _Needs
    ) -> Iterator[Outcome]:
        spellings = spellings_of(command.location)
        by_hudi = self.context.settings.are_by_hudi(command.table, *spellings)
        by_hudi = by_hudi and self.context.hudi is not None
        table = open_table(
            self.context.warehouse, command.location, command.table, any_kind=by_hudi
        )
        if not command.plan_only:
            done = previous_restore(self.context, table, command, by_hudi=by_hudi)
            if done is not None:
                yield self._completed(command, done, already_done=True)
                return
        plan = prepare(table, command.savepoint, self.context, by_hudi=by_hudi)
        if command.plan_only:
            yield RestorePlanned.about(command, **self._plan_fields(command, plan))
        elif command.expected_plan is None and command.seen_up_to is None:
            confirmed = command_line(
                "publish restore",
                table=command.table,
                location=command.location,
                savepoint=command.savepoint,
                expected_plan=plan.plan_id,
                reason="the plan is right",
            )
            message = (
                "Nothing was changed: the request has neither expected_plan nor seen_up_to. If this"
                f" plan is right: {confirmed}"
            )
            yield RestorePlanned.about(command, **self._plan_fields(command, plan), message=message)
        else:
            _check_confirmation(command, table, plan)
            rule, approval = needs.rule, needs.approval
            if rule is None and command.needs_approval:
                raise Refused(
                    Reason.APPROVAL_NOT_CONFIGURED,
                    "the request needs an approval, but no rule of [[restores.rules]] names the"
                    " approvers for this location",
                )
            if rule is not None and approval is None:
                within = needs.request.at + rule.within
                fields = self._plan_fields(command, plan) | {"expires_at": within}
                yield RestoreAwaitingApproval.about(command, **fields)
                return
            if approval is not None:
                try:
                    check_plan(plan, approval.plan_id, "approve it")
                except Refused as refused:  # the request continues to wait
                    yield self._approval_rejected(approval, command, refused)
                    return
            if by_hudi:  # Hudi's own procedure takes the lock if its session has a provider
                yield (yield from self._carry_out(command, claim, table, plan))
                return
            context = replace(self.context, claim=claim)
            with holding_lock(context, table.location, command.event_id) as held:
                last = yield from self._carry_out(command, held, table, plan)
            yield last  # after the lock's release: a crash after publication leaves no lock

    def _approval_rejected(
        self, approval: Command, request: RestoreRequested, refused: Refused
    ) -> RestoreApprovalRejected:
        at = self.context.clock()
        return RestoreApprovalRejected.about(
            approval, source=self.name, occurred_at=at, request=request.event_id, **refused.fields
        )

    def _carry_out(
        self, command: RestoreRequested, claim: AnyClaim, table: HudiTable, plan: PlannedRestore
    ) -> Generator[Outcome, None, RestoreCompleted | RestoreFailed]:
        """Restore; the final outcome is returned instead of yielded."""
        began = self.context.clock()
        context = replace(self.context, claim=claim)
        run = RestoreRun.begin(context, table, plan, command.event_id)
        yield RestoreStarted.about(
            command,
            **self._plan_fields(command, plan),
            restore_instant=run.instant.timestamp,
            resumed=plan.resumes is not None,
        )
        try:
            check_writers(
                self.context.warehouse, table.location, self.context.clock(), self.context.settings
            )
        except Refused as late:  # that writer began before the restore was on the timeline
            message = (
                f"{late.message}; nothing was removed. Request the restore again once that writer"
                " has stopped"
            )
            return self._failed(command, run.instant, message)
        try:
            run.drop_metadata_table()
            if plan.by_hudi:
                metadata = run.roll_back_by_hudi()
            else:
                metadata = yield from self._roll_back(command, run, began)
            # the plan counts the files that an earlier attempt removed, too
            files = metadata.total if plan.by_hudi else plan.files
            completed = self._completed(
                command, metadata, files_deleted=files, metadata_table=plan.metadata_table
            )
            if not plan.by_hudi:
                run.finish(metadata)
        except (FormatError, ConfinementError) as error:
            return self._failed(command, run.instant, str(error))
        return completed

    def _roll_back(
        self, command: RestoreRequested, run: RestoreRun, began: datetime
    ) -> Generator[Outcome, None, RestoreMetadata]:
        rollbacks, files, reported_at = list[RollbackMetadata](), 0, began
        for steps in run.passes():
            run.check_savepoints()
            rollbacks += run.roll_back(steps)
            files += sum(len(step.files) for step in steps)
            now = self.context.clock()
            # never after the last pass, because the restore's outcome follows
            if len(rollbacks) < len(run.plan.steps) and now - reported_at >= PROGRESS_EVERY:
                reported_at = now
                yield RestoreProgressed.about(
                    command,
                    **self._fields(command, now),
                    restore_instant=run.instant.timestamp,
                    instants_done=len(rollbacks),
                    instants_total=len(run.plan.steps),
                    files_done=files,
                    files_total=sum(len(step.files) for step in run.plan.steps),
                )
        run.check_end()
        took_ms = elapsed_ms(began, self.context.clock())
        return RestoreMetadata(run.instant.timestamp, took_ms, tuple(rollbacks))

    def _fields(self, command: RestoreRequested, at: datetime | None = None) -> dict[str, Any]:
        """The fields of every outcome."""
        at = at or self.context.clock()
        return {"source": self.name, "occurred_at": at, "savepoint": command.savepoint}

    def _plan_fields(self, command: RestoreRequested, plan: PlannedRestore) -> dict[str, Any]:
        return self._fields(command) | {
            "plan_id": plan.plan_id,
            "instants": _refs(plan.targets),
            "files": plan.files,
            "bytes": plan.bytes,
            "metadata_table": plan.metadata_table,
        }

    def _completed(
        self, command: RestoreRequested, done: RestoreMetadata, **more: object
    ) -> RestoreCompleted:
        fields = self._fields(command) | {
            "restore_instant": done.started,
            "instants": _refs(done.instants),
            "files_deleted": done.total,
            "duration_ms": done.took_ms,
        }
        return RestoreCompleted.about(command, **fields | more)

    def _failed(self, command: RestoreRequested, instant: Instant, message: str) -> RestoreFailed:
        fields = {"restore_instant": instant.timestamp, "message": readable(message)}
        return RestoreFailed.about(command, **self._fields(command), **fields)


def _check_confirmation(command: RestoreRequested, table: HudiTable, plan: PlannedRestore) -> None:
    """Check that the requester had seen every commit that this restore removes."""
    if command.expected_plan is not None:
        check_plan(plan, command.expected_plan, "request the restore with its id")
    if command.seen_up_to is not None:
        targets = {step.target.timestamp for step in plan.steps}
        later = [write for write in table.timeline.writes if write.timestamp in targets]
        check_seen(table.timeline, later, command.seen_up_to)


def _refs(instants: tuple[InstantInfo, ...]) -> tuple[InstantRef, ...]:
    return tuple(InstantRef(instant=i.timestamp, action=i.action) for i in instants)
