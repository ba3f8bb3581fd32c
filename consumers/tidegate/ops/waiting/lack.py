"""Which holds of a waiting vacuum have not ended, and whose they are. Pure."""

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
    lacks: tuple[OutstandingReader, ...]
    overdue_since: datetime | None = None
    """When VacuumOverdue was published for it; None where it has not waited for that long."""
    held_by: str | None = None
    """Who holds the table, and why; None: nobody does."""

    @property
    def age(self) -> tuple[datetime, str]:
        """What it is sorted by: the oldest first, and those of one time by their ids."""
        return self.since, self.event_id

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        # not dataclasses.asdict: it copies every hold
        return {each.name: getattr(self, each.name) for each in fields(self)} | {
            "since": _iso(self.since),
            "lacks": [reader.model_dump() for reader in self.lacks],
            "overdue_since": self.overdue_since and _iso(self.overdue_since),
        }


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class StoredVacuum:
    """A vacuum that waits, as the gate has stored it: what it lacks is looked up when asked for.

    It keeps the records of its table in memory; a `LackingVacuum` does not.
    """

    table: str
    waiting: WaitingVacuum
    index: GateIndex = field(repr=False)

    @property
    def age(self) -> tuple[datetime, str]:
        """What it is sorted by."""
        return self.waiting.since, self.waiting.event_id

    def lacking(self) -> LackingVacuum:
        """It, and what it waits for."""
        return _lacking(self.table, self.waiting, self.index)

    def count_lacks(self) -> tuple[int, int]:
        """How many locks, and how many transactions without a known lock, have not ended."""
        locks, transactions = unended(self.waiting, self.index)
        return len(locks), len(transactions)


def stored_vacuums(store: StateStore[GateState]) -> Iterator[StoredVacuum]:
    """The vacuums that wait, of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        index = store.state(table).loaded
        for name in index.pieces.names():
            piece = index.pieces.get(name) if name[0] == VACUUM else None
            if isinstance(piece, WaitingVacuum | VacuumRecord):
                yield StoredVacuum(table, piece.whole(), index)


def lacking_vacuums(store: StateStore[GateState]) -> Iterator[LackingVacuum]:
    """The same, each with what it waits for."""
    return (vacuum.lacking() for vacuum in stored_vacuums(store))


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
        holds=holds_of(waiting),
        lacks=tuple(lacks_of(waiting, index)),
        overdue_since=waiting.overdue_since,
        held_by=None if hold is None else f"{hold.requested_by}: {hold.reason}",
    )
