"""Recognising a request that was heard before: nothing is ever restored twice for one command.

A replay, a redelivery or a dead letter sent back may bring a request long after its restore, when
writers have gone on: carried out again it would destroy what they wrote since. A completed restore
is therefore noted on its table. A rejection leaves nothing there: that it was given is on the
outcomes topic, where the loop looks before it asks the restorer (`final`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate.events import RestoreCompleted, RestoreRequested
from tidegate.hudi import Action, RestoreMetadata, State
from tidegate.hudi_reader import HudiTable
from tidegate.hudi_tables import Answers, TimelineWriter
from tidegate.refusals import Refused
from tidegate.restores.finished import finished_restore, trim
from tidegate.restores.tools import Tools
from tidegate.warehouse import Warehouse

_SHELF: Final = "restorer"


def answers_of(warehouse: Warehouse, location: str) -> Answers:
    """The answers to restore requests that a table keeps, of all times: restores are rare."""
    return Answers(warehouse, location, _SHELF)


def answered_before(
    tools: Tools,
    table: HudiTable,
    command: RestoreRequested,
    completed: Callable[[RestoreMetadata], RestoreCompleted],
) -> RestoreCompleted | None:
    """The answer to a request that was answered, or whose work is done; None: carry it out.

    Raises:
        Refused: its restore was begun, and somebody took it off the timeline.
    """
    answers = answers_of(tools.warehouse, table.location)
    kept = answers.given(command.event_id)
    given = kept if isinstance(kept, RestoreCompleted) else None
    begun = given.restore_instant if given else answers.begun(command.event_id)
    if begun in {pending.timestamp for pending in table.timeline.pending_restores}:
        return None
    done = _completed_at(table, begun) if begun else finished_restore(table, command.savepoint)
    if done is not None:
        trim(TimelineWriter(tools.warehouse, table, tools.clock), command.savepoint, done)
        given = given or completed(done)
        answers.keep(command.event_id, given)
    if given is None and begun is not None:
        raise Refused(
            "restore-abandoned",
            f"restore {begun}, begun for this request, is neither pending nor completed any more",
        )
    return given


def _completed_at(table: HudiTable, instant: str) -> RestoreMetadata | None:
    for restore in table.timeline.of_action(Action.RESTORE, State.COMPLETED):
        if restore.timestamp == instant:
            return RestoreMetadata.decode(table.read(restore))
    return None
