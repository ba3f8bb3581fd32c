"""The savepoint policy as a subject: one row a table, with the policy's state of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from tidegate.coordinator.store import Kind, Store
from tidegate.coordinator.subject import Effects, milliseconds
from tidegate.events import Event
from tidegate.savepoints.policy import SavepointPolicyService
from tidegate.savepoints.policy_state import Decision, PolicyState

POLICY: Final = Kind(
    "policy",
    has_body=True,
    derived=("due",),
    indexes=("policy_due on policy (due) where due is not null",),
)
_AT_ONCE: Final = 100
_AGAIN_AFTER: Final = timedelta(minutes=1)
"""A table that was decided on is not due again at once, whatever its state is."""


class SavepointSubject:
    """Applies a savepoint policy to the rows of tables."""

    consumes: ClassVar[tuple[type[Event], ...]] = SavepointPolicyService.consumes
    kinds: ClassVar[Sequence[Kind]] = (POLICY,)

    def __init__(self, service: SavepointPolicyService) -> None:
        """Take the policy."""
        self._service = service

    def restored(self, rows: Store) -> None:
        """Derive when each table is due: the rules may have changed."""
        for table, body in rows.all("select tbl, body from policy"):
            due = self._due(table, PolicyState.model_validate_json(body))
            rows.execute("update policy set due = ? where tbl = ?", (due, table))

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        """Request the savepoints and removals that are due, and record the event."""
        state = _state(rows, event.table)
        return self._put(rows, event.table, state, self._service.decide(state, event, at))

    def next_due(self, rows: Store) -> int | None:
        """When the next lifetime ends, or a refused removal is requested again."""
        query = "select min(due) from policy indexed by policy_due where due is not null"
        due: int | None = rows.one(query)[0]
        return due

    def due(self, rows: Store, at: datetime) -> Effects:
        """Request the removal of expired savepoints."""
        query = "select tbl from policy indexed by policy_due where due <= ? order by due limit ?"
        effects, earliest = Effects(), milliseconds(at + _AGAIN_AFTER)
        for (table,) in rows.all(query, milliseconds(at), _AT_ONCE):
            state = _state(rows, table)
            found = self._put(rows, table, state, self._service.tick(table, state, at))
            effects.commands += found.commands
            rows.execute(
                "update policy set due = max(due, ?) where tbl = ? and due is not null",
                (earliest, table),
            )
        return effects

    def _put(self, rows: Store, table: str, before: PolicyState, decision: Decision) -> Effects:
        after = decision.state
        if after is not before:
            due = self._due(table, after)
            rows.put("policy", table, body=after.model_dump_json(), derived=(due,))
        return Effects([*decision.commands], [*decision.outcomes])

    def _due(self, table: str, state: PolicyState) -> int | None:
        due = self._service.due(table, state)
        return None if due is None else milliseconds(due)


def _state(rows: Store, table: str) -> PolicyState:
    found = rows.one("select body from policy where tbl = ?", table)
    return PolicyState() if found is None else PolicyState.model_validate_json(found[0])
