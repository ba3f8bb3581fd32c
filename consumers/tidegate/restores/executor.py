"""The restorer: takes a table back to a savepoint, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from tidegate.errors import ConfinementError, FormatError, PermanentError, TransientError
from tidegate.events import (
    Command,
    InstantRef,
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.fanout import FanOut
from tidegate.hudi import Instant, InstantInfo, RestoreMetadata
from tidegate.hudi_reader import HudiTable
from tidegate.hudi_tables import open_table
from tidegate.refusals import Refusal, Refused, readable
from tidegate.restores.act import RestoreRun
from tidegate.restores.liveness import RestoreSettings, check_writers
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.preparation import prepare
from tidegate.restores.repeats import answered_before, answers_of
from tidegate.restores.tools import Tools
from tidegate.storage import NotFound
from tidegate.warehouse import Warehouse


class Restorer:
    """Answers a RestoreRequested.

    With RestorePlanned where only the plan is wanted; with RestoreRejected where a check says no;
    else with RestoreStarted and then RestoreCompleted, or RestoreFailed. A restore that died is
    taken up by the next request to the same savepoint, also in another process. A request to a
    savepoint that the table has just been restored to gets its RestoreCompleted again. A request
    that was answered is answered the same for ever, whatever was written since: it is never
    carried out again.

    Reason codes: those of `hudi_tables.opening`, `restores.checks` and `restores.liveness`, and
    plan-changed, restore-abandoned, unreadable-table.
    """

    name: ClassVar[str] = "restorer"
    hears: ClassVar[tuple[type[Command], ...]] = (RestoreRequested,)
    looks_back: ClassVar[bool] = True

    def __init__(
        self,
        warehouse: Warehouse,
        fan_out: FanOut,
        clock: Callable[[], datetime],
        settings: RestoreSettings | None = None,
    ) -> None:
        """Take what may be changed, what does much at once, the time (aware), and the settings."""
        self.tools = Tools(warehouse, fan_out, clock, settings or RestoreSettings())

    def is_answered(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether a request was planned, completed, or rejected before anything was begun.

        A restore that was begun is resumed by its own request, whatever stopped it on the way.
        """
        if any(isinstance(each, RestoreCompleted | RestorePlanned) for each in outcomes):
            return True
        begun = any(isinstance(each, RestoreStarted) for each in outcomes)
        return not begun and any(isinstance(each, RestoreRejected) for each in outcomes)

    def execute(self, command: Command) -> Iterator[Outcome]:
        """Plan, check, restore.

        Raises:
            PermanentError: the command is no RestoreRequested.
            TransientError: the table changed in between, or a file went away; ask again.
        """
        if not isinstance(command, RestoreRequested):
            raise PermanentError(f"{self.name} does not answer a {type(command).__name__}")
        try:
            yield from self._answer(command)
        except Refused as refused:
            yield self._rejected(command, refused.refusal)
        except FormatError as error:
            yield self._rejected(command, Refusal("unreadable-table", str(error)))
        except NotFound as error:
            raise TransientError(f"{error} went away in between") from error

    def _answer(self, command: RestoreRequested) -> Iterator[Outcome]:
        table = open_table(self.tools.warehouse, command.location, command.table)
        if not command.plan_only:
            known = answered_before(self.tools, table, command, partial(self._completed, command))
            if known is not None:
                yield known
                return
        plan = prepare(table, command.savepoint, self.tools)
        if command.plan_only:
            yield RestorePlanned.about(command, **self._plan_fields(plan))
            return
        if command.expected_plan not in (None, plan.plan_id):
            raise Refused("plan-changed", f"the plan is {plan.plan_id} by now")
        yield from self._carry_out(command, table, plan)

    def _carry_out(
        self, command: RestoreRequested, table: HudiTable, plan: PlannedRestore
    ) -> Iterator[Outcome]:
        began = self.tools.clock()
        run = RestoreRun.begin(self.tools, table, plan, command.event_id)
        yield RestoreStarted.about(
            command,
            **self._plan_fields(plan),
            restore_instant=run.instant.timestamp,
            resumed=plan.resumes is not None,
        )
        late = check_writers(
            self.tools.warehouse, table.location, self.tools.clock(), self.tools.settings
        )
        if late is not None:  # it began before the restore stood on the timeline for it to see
            told = f"{late.message}; nothing was removed: ask again when it has ended"
            yield self._failed(command, run.instant, told)
            return
        try:
            run.drop_metadata_table()
            rollbacks = tuple(run.roll_back(step) for step in plan.steps)
            last = table.reloaded().timeline.last_completed_write()
            if last is None or last.timestamp != plan.savepoint:
                yield self._failed(command, run.instant, f"{plan.savepoint} is not last: {last}")
                return
            took_ms = int((self.tools.clock() - began).total_seconds() * 1000)
            metadata = RestoreMetadata(run.instant.timestamp, max(0, took_ms), rollbacks)
            completed = self._completed(command, metadata)
            answers_of(self.tools.warehouse, table.location).keep(command.event_id, completed)
            run.finish(metadata)
        except (FormatError, ConfinementError) as error:
            yield self._failed(command, run.instant, str(error))
            return
        yield completed

    def _plan_fields(self, plan: PlannedRestore) -> dict[str, Any]:
        return {
            "said_by": self.name,
            "occurred_at": self.tools.clock(),
            "savepoint": plan.savepoint,
            "plan_id": plan.plan_id,
            "instants": _refs(plan.targets),
            "files": plan.files,
            "bytes": plan.bytes,
        }

    def _completed(self, command: RestoreRequested, done: RestoreMetadata) -> RestoreCompleted:
        return RestoreCompleted.about(
            command,
            said_by=self.name,
            occurred_at=self.tools.clock(),
            savepoint=command.savepoint,
            restore_instant=done.started,
            instants=_refs(done.instants),
            files_deleted=done.total,
            duration_ms=done.took_ms,
        )

    def _failed(self, command: RestoreRequested, instant: Instant, message: str) -> RestoreFailed:
        return RestoreFailed.about(
            command,
            said_by=self.name,
            occurred_at=self.tools.clock(),
            savepoint=command.savepoint,
            restore_instant=instant.timestamp,
            message=readable(message),
        )

    def _rejected(self, command: RestoreRequested, refusal: Refusal) -> RestoreRejected:
        return RestoreRejected.about(
            command,
            said_by=self.name,
            occurred_at=self.tools.clock(),
            savepoint=command.savepoint,
            reason=refusal.reason,
            message=refusal.message,
        )


def _refs(instants: tuple[InstantInfo, ...]) -> tuple[InstantRef, ...]:
    return tuple(InstantRef(instant=i.timestamp, action=i.action) for i in instants)
