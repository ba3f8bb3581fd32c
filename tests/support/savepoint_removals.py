"""Savepoints of a hand-made table, made and removed by the savepoint writer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, SavepointCreated, SavepointRemovalRequested, derived_id
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.removal import Ended, remove_savepoint
from tidegate.tables.warehouse import Warehouse


def keep(
    table: HandMade, minute: int, *tiers: str, policy: str | None = "sales", **fields: object
) -> SavepointCreated:
    """A savepoint, by default one of the policy `sales`, made in the order of the minutes."""
    given: dict[str, object] = {"policy": policy, "tiers": tiers, "comment": "", **fields}
    given |= {"requested_by": f"policy:{policy}"} if policy else {}
    given |= {"occurred_at": NOW + timedelta(minutes=minute)}
    (outcome,) = SavepointWriter(warehouse_over(table.path.parent), ThreadMap(), ticking()).execute(
        savepoint_request(table, at(minute), **given)
    )
    assert isinstance(outcome, SavepointCreated), outcome
    return outcome


def removal(table: HandMade, minute: int, **fields: object) -> SavepointRemovalRequested:
    given: dict[str, object] = {
        "table": f"lake.sales.{table.path.name}",
        "location": table.location,
        "occurred_at": NOW,
        "source": "test",
        "instant": at(minute),
        "requested_by": "ana",
        "reason": "no longer needed",
    }
    given |= fields
    given["event_id"] = derived_id("removal", *map(str, given.values()))
    return SavepointRemovalRequested.model_validate(given)


POLICY: Final = ("sales", None)
"""A check that ends a savepoint of the policy `sales`."""


def remove(
    command: SavepointRemovalRequested,
    warehouse: Warehouse | None = None,
    ended: Ended | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Outcome:
    """A person's removal, or with `ended` one by a check."""
    ours = warehouse or warehouse_over(Path(command.location).parent)
    return remove_savepoint(command, ours, clock or ticking(), "savepoint-writer", ended=ended)


def savepoints(table: HandMade) -> set[str]:
    return {name for name in timeline_names(table) if ".savepoint" in name}
