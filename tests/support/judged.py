"""Our savepoints and restores on tables that real Hudi wrote, for its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from uuid import NAMESPACE_OID, uuid4, uuid5

from support.hudi_records import recorded_time
from support.hudi_tables import warehouse_over
from support.real_hudi import RealTable
from tidegate.events import Command, Outcome, RestoreRequested, SavepointRequested
from tidegate.hudi.instant import Action, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi_reader.table import load_table
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.protocols import Executor
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import ParallelMap, Storage
from tidegate.tables.claim import Task
from tidegate.tables.warehouse import Warehouse

NOW = partial(datetime.now, UTC)
_NUMBERS = count(1)


def timeline_of(table: RealTable) -> set[tuple[str, str, str]]:
    """Every file of a timeline, but the pending ones of completed clusterings: Hudi leaves them."""
    return {
        ("" if i.action is Action.RESTORE else i.timestamp, i.action, i.state.name)
        for i in load_table(Storage(), table.location).files
        if i.action is not Action.CLUSTERING
    }


def savepoint_files(table: RealTable) -> dict[str, set[str]]:
    """What the newest savepoint of a table keeps."""
    loaded = load_table(Storage(), table.location)
    savepoint = loaded.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)[-1]
    files = SavepointMetadata.decode(loaded.read(savepoint)).files
    return {partition: set(names) for partition, names in files.items()}


def asked(table: RealTable) -> dict[str, object]:
    """The fields of a request. A recorded table gets the same request as when it was recorded."""
    by_table = uuid5(NAMESPACE_OID, table.hudi.identity(table.path))
    return {
        "event_id": str(by_table if table.hudi.record else uuid4()),
        "table": "lake.sales.orders",
        "location": table.location,
        "occurred_at": NOW(),
        "source": "test",
        "requested_by": "ada",
    }


def savepoint(
    table: RealTable,
    instant: str | None,
    parallel_map: ParallelMap,
    warehouse: Warehouse | None = None,
) -> Outcome:
    command = SavepointRequested.model_validate(asked(table) | {"instant": instant})
    with recorded_time(table.hudi, table.path) as clock:
        files = warehouse or warehouse_over(table.path.parent)
        writer = SavepointWriter(files, parallel_map, clock)
        (outcome,) = carried_out(writer, command)
    return outcome


def carried_out(executor: Executor, command: Command) -> Sequence[Outcome]:
    """The outcomes of a command as a task: real Hudi finds its claim on the table."""
    task = Task(next(_NUMBERS), command.event_id, command.table, "cluster/tidegate")
    claim = executor.claim(command, task)
    outcomes = list(executor.execute(command, claim))
    assert claim.finish(outcomes) == outcomes
    return outcomes


def request(table: RealTable, instant: str) -> RestoreRequested:
    """A request to restore a table, whatever was written since."""
    fields = {"reason": "bad load", "savepoint": instant, "seen_up_to": "99991231235959999"}
    return RestoreRequested.model_validate(asked(table) | fields)


def restore(
    table: RealTable, instant: str, parallel_map: ParallelMap, warehouse: Warehouse | None = None
) -> Sequence[Outcome]:
    command = request(table, instant)
    brief = RestoreSettings(watch_seconds=0.2)
    with recorded_time(table.hudi, table.path) as clock:
        restorer = Restorer(
            warehouse or warehouse_over(table.path.parent), parallel_map, clock, brief
        )
        return carried_out(restorer, command)
