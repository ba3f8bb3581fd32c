"""Which holds of a waiting vacuum have not ended, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from tidegate.coordinator.holds import hold_on
from tidegate.coordinator.store import Store
from tidegate.coordinator.subject import moment
from tidegate.coordinator.vacuums import WaitingVacuum, overdue_since, waiting_vacuums
from tidegate.events import OutstandingReader


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
    metastore: str | None = None
    """Whose ids the holds are."""
    held_by: str | None = None
    """Who holds the table, and why; None: the table is not held."""

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
    """A vacuum that waits, and the rows in which its readers are looked up when asked for."""

    waiting: WaitingVacuum
    rows: Store = field(repr=False)

    @property
    def table(self) -> str:
        """The table's identity."""
        return self.waiting.table

    @property
    def since(self) -> datetime:
        """Since when it waits: the broker's time."""
        return moment(self.waiting.since)

    @property
    def age(self) -> tuple[datetime, str]:
        """What it is sorted by."""
        return self.since, self.waiting.event_id

    @property
    def overdue_since(self) -> datetime | None:
        """When it was reported as overdue."""
        return overdue_since(self.rows, self.waiting)

    def pending(self) -> PendingVacuum:
        """It, and what it waits for."""
        waiting, made, hold = self.waiting, self.waiting.vacuum, hold_on(self.rows, self.table)
        return PendingVacuum(
            table=self.table,
            location=made.location,
            partition=made.partition,
            event_id=waiting.event_id,
            since=self.since,
            kind=str(made.kind),
            directories=made.directories,
            holds=waiting.count,
            outstanding=tuple(waiting.outstanding_readers(self.rows)),
            overdue_since=self.overdue_since,
            metastore=waiting.metastore,
            held_by=None if hold is None else f"{hold.requested_by}: {hold.reason}",
        )

    def count_outstanding(self) -> tuple[int, int]:
        """How many locks, and how many transactions without a known lock, have not ended."""
        locks, transactions = self.waiting.outstanding(self.rows)
        return len(locks), len(transactions)


def stored_vacuums(rows: Store) -> Iterator[StoredVacuum]:
    """The vacuums that wait, of every table, in no particular order."""
    return (StoredVacuum(vacuum, rows) for vacuum in waiting_vacuums(rows))
