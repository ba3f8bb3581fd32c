"""Recognise a request that was carried out: no request ever restores a table twice.

A task may be repeated after its restore: the worker died before it recorded the task's outcome, or
a coordinator has lost its rows. Carried out again, it would destroy later writes. So the table
itself records the request of every restore, and its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeGuard

from tidegate.errors import FormatError, TransientError
from tidegate.events import Outcome, RestoreCompleted, RestoreRequested
from tidegate.events.reasons import Reason
from tidegate.hudi import Action, InstantState, RestoreMetadata
from tidegate.hudi_reader import HudiTable
from tidegate.restores.context import RestoreContext
from tidegate.restores.finished import finished_restore, savepoint_of, trim
from tidegate.tables.claim import HUDI, Claim
from tidegate.tables.hudi import OutcomeStore, TimelineWriter, open_table
from tidegate.tables.refusal import Refused
from tidegate.tables.warehouse import Warehouse

_FOLDER: Final = "restorer"


def outcome_store(warehouse: Warehouse, location: str) -> OutcomeStore:
    """The outcomes of all restores of a table, without expiry, because restores are rare."""
    return OutcomeStore(warehouse, location, _FOLDER)


class RestoreClaim(Claim):
    """The claim of a restorer's task."""

    def has_begun(self, number: int, command: str) -> bool:  # noqa: ARG002 - any task of the request
        """Whether a restore for the request was put on the timeline, by any of its tasks.

        A pending restore counts, too: the request is recorded after the restore is on the timeline.
        """
        location = self.folder.removesuffix(f"/{HUDI}")
        try:
            table = open_table(self.warehouse, location, self.task.table, any_kind=True)
            begun = outcome_store(self.warehouse, location).started_at(command)
        except FormatError as error:  # it can't be known now
            raise TransientError(str(error)) from error
        return begun is not None or bool(table.timeline.pending_restores)


def completes(outcome: Outcome, command: RestoreRequested) -> TypeGuard[RestoreCompleted]:
    """Whether an outcome reports that this request is complete, as far as its fields show."""
    return isinstance(outcome, RestoreCompleted) and concerns(outcome, command)


def concerns(outcome: Outcome, command: RestoreRequested) -> bool:
    """Whether an outcome has the table, location, savepoint and cause of a request.

    Other producers may publish outcomes, too, so the cause alone proves nothing.
    """
    theirs = (outcome.table, outcome.location, getattr(outcome, "savepoint", None))
    ours = (command.table, command.location, command.savepoint)
    return theirs == ours and outcome.caused_by == command.event_id


def previous_outcome(
    context: RestoreContext,
    table: HudiTable,
    command: RestoreRequested,
    completed: Callable[[RestoreMetadata], RestoreCompleted],
) -> RestoreCompleted | None:
    """The outcome of a request that was carried out before; None: carry it out, or resume it.

    Raises:
        Refused: the restore began but is no longer on the timeline; or Hudi completed it, and a
            write that had begun earlier stayed.
        FormatError: the outcome stored for this request belongs to another one.
    """
    store = outcome_store(context.warehouse, table.location)
    outcome = store.outcome_of(command.event_id)
    if outcome is not None and not completes(outcome, command):
        raise FormatError(
            f"the outcome stored in {store.path_of(command.event_id)} belongs to another request,"
            " so it is damaged or forged: remove the file"
        )
    begun = outcome.restore_instant if outcome else store.started_at(command.event_id)
    if begun in {pending.timestamp for pending in table.timeline.pending_restores}:
        return None
    done = (
        _completed_at(table, begun, command.savepoint)
        if begun
        else finished_restore(table, command.savepoint)
    )
    if done is not None and begun and outcome is None:
        _check_end(table, command.savepoint, done)
    if done is not None:
        trim(TimelineWriter(context.warehouse, table, context.clock), command.savepoint, done)
        outcome = outcome or completed(done)
        store.put(command.event_id, outcome)
    if outcome is None and begun is not None:
        raise Refused(
            Reason.RESTORE_ABANDONED,
            f"restore {begun}, which began for this request, is no longer on the timeline",
        )
    return outcome


def _check_end(table: HudiTable, savepoint: str, done: RestoreMetadata) -> None:
    """Make the final check of Tidegate's own restores on a restore that Hudi completed."""
    for write in table.timeline.completed_writes:
        if savepoint < write.timestamp < done.started:
            raise Refused(
                Reason.LATER_COMMIT_STAYS,
                f"commit {write.timestamp} completed while restore {done.started} ran, and was not"
                " rolled back: review a new plan, then send a new request",
            )


def _completed_at(table: HudiTable, instant: str, savepoint: str) -> RestoreMetadata | None:
    for restore in table.timeline.of_action(Action.RESTORE, InstantState.COMPLETED):
        if restore.timestamp == instant and savepoint_of(table, restore) == savepoint:
            return RestoreMetadata.decode(table.read(restore))
    return None
