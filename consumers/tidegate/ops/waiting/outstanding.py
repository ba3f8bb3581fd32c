"""The outstanding holds of waiting vacuums, with their owners. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from tidegate.cleaning.gate_holds import hold_of
from tidegate.cleaning.gate_index import GateIndex
from tidegate.cleaning.gate_lacks import holds_of, lacks_of, unended
from tidegate.cleaning.gate_state import VACUUM, GateState, VacuumRecord, WaitingVacuum
from tidegate.events import OutstandingReader
from tidegate.runtime.decider.state_store import StateStore


@dataclass(frozen=True, slots=True)
class PendingVacuum:
    """A waiting vacuum and its outstanding holds. `since` is the broker's time."""

    table: str
    location: str
    partition: str | None
    event_id: str
    since: datetime
    kind: str
    directories: tuple[str, ...]
    holds: int
    """The number of holds when the vacuum's result became visible."""
    outstanding: tuple[OutstandingReader, ...]
    overdue_since: datetime | None = None
    """When VacuumOverdue was published for it; None if it is not overdue."""
    held_by: str | None = None
    """The person who put the table on hold, and the reason; None if it is not on hold."""

    @property
    def age(self) -> tuple[datetime, str]:
        """The sort key: the time, then the id."""
        return self.since, self.event_id

    def as_json(self) -> dict[str, Any]:
        """All fields, for scripts."""
        # not dataclasses.asdict: it copies every hold
        return {field_.name: getattr(self, field_.name) for field_ in fields(self)} | {
            "since": _iso(self.since),
            "outstanding": [reader.model_dump() for reader in self.outstanding],
            "overdue_since": self.overdue_since and _iso(self.overdue_since),
        }


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class StoredVacuum:
    """A waiting vacuum in the gate's state; its outstanding holds are looked up on demand.

    It refers to its table's records, which stay in memory; a `PendingVacuum` does not.
    """

    table: str
    waiting: WaitingVacuum
    index: GateIndex = field(repr=False)

    @property
    def age(self) -> tuple[datetime, str]:
        """The sort key: the time, then the id."""
        return self.waiting.since, self.waiting.event_id

    def pending(self) -> PendingVacuum:
        """The vacuum with its outstanding holds."""
        return _pending(self.table, self.waiting, self.index)

    def count_outstanding(self) -> tuple[int, int]:
        """The numbers of outstanding locks, and of outstanding transactions without a lock."""
        locks, transactions = unended(self.waiting, self.index)
        return len(locks), len(transactions)


def stored_vacuums(store: StateStore[GateState]) -> Iterator[StoredVacuum]:
    """The waiting vacuums of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        index = store.state(table).loaded
        for name in index.pieces.names():
            piece = index.pieces.get(name) if name[0] == VACUUM else None
            if isinstance(piece, WaitingVacuum | VacuumRecord):
                yield StoredVacuum(table, piece.whole(), index)


def pending_vacuums(store: StateStore[GateState]) -> Iterator[PendingVacuum]:
    """The same, with their outstanding holds."""
    return (vacuum.pending() for vacuum in stored_vacuums(store))


def _pending(table: str, waiting: WaitingVacuum, index: GateIndex) -> PendingVacuum:
    made, hold = waiting.vacuum, hold_of(index.pieces)
    return PendingVacuum(
        table=table,
        location=made.location,
        partition=made.partition,
        event_id=waiting.event_id,
        since=waiting.since,
        kind=str(made.kind),
        directories=made.directories,
        holds=holds_of(waiting),
        outstanding=tuple(lacks_of(waiting, index)),
        overdue_since=waiting.overdue_since,
        held_by=None if hold is None else f"{hold.requested_by}: {hold.reason}",
    )
