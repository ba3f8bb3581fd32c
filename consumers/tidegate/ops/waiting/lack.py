"""Which holds of a waiting vacuum have not ended, and whose they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tidegate.cleaning.gate_holds import hold_of
from tidegate.cleaning.gate_index import GateIndex
from tidegate.cleaning.gate_lacks import lacks_of
from tidegate.cleaning.gate_state import VACUUM, GateState, VacuumRecord, WaitingVacuum
from tidegate.events import LackedHold
from tidegate.runtime.decider.state_store import StateStore


@dataclass(frozen=True, slots=True)
class LackingVacuum:
    """A vacuum that waits, and what it waits for. `since` is the broker's time."""

    table: str
    location: str
    partition: str | None
    event_id: str
    since: datetime
    kind: str
    directories: tuple[str, ...]
    holds: int
    """How many it had when it became visible."""
    lacks: tuple[LackedHold, ...]
    overdue_since: datetime | None = None
    """When VacuumOverdue was published for it; None where it has not waited for that long."""
    held_by: str | None = None
    """Who holds the table, and why; None: nobody does."""

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        since = self.since.isoformat(timespec="milliseconds")
        lacks = [each.model_dump() for each in self.lacks]
        overdue = self.overdue_since and self.overdue_since.isoformat(timespec="milliseconds")
        return asdict(self) | {"since": since, "lacks": lacks, "overdue_since": overdue}


def lacking_vacuums(store: StateStore[GateState]) -> Iterator[LackingVacuum]:
    """The vacuums that wait, of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        index = store.state(table).loaded
        for name in index.pieces.names():
            piece = index.pieces.get(name) if name[0] == VACUUM else None
            if isinstance(piece, WaitingVacuum | VacuumRecord):
                yield _lacking(table, piece.whole(), index)


def _lacking(table: str, waiting: WaitingVacuum, index: GateIndex) -> LackingVacuum:
    made, hold = waiting.vacuum, hold_of(index.pieces)
    return LackingVacuum(
        table=table,
        location=made.location,
        partition=made.partition,
        event_id=waiting.event_id,
        since=waiting.since,
        kind=str(made.kind),
        directories=made.directories,
        holds=len(waiting.locks) + len(waiting.transactions),
        lacks=tuple(lacks_of(waiting, index)),
        overdue_since=waiting.overdue_since,
        held_by=None if hold is None else f"{hold.requested_by}: {hold.reason}",
    )
