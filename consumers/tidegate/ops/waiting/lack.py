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
from tidegate.events import LackedHold


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
    """Who holds the table, and why; None: the table is not held."""

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
        """When people were told that it waits too long."""
        return overdue_since(self.rows, self.waiting)

    def lacking(self) -> LackingVacuum:
        """It, and what it waits for."""
        waiting, made, hold = self.waiting, self.waiting.vacuum, hold_on(self.rows, self.table)
        return LackingVacuum(
            table=self.table,
            location=made.location,
            partition=made.partition,
            event_id=waiting.event_id,
            since=self.since,
            kind=str(made.kind),
            directories=made.directories,
            holds=waiting.count,
            lacks=tuple(waiting.outstanding_readers(self.rows)),
            overdue_since=self.overdue_since,
            held_by=None if hold is None else f"{hold.requested_by}: {hold.reason}",
        )

    def count_lacks(self) -> tuple[int, int]:
        """How many locks, and how many transactions without a known lock, have not ended."""
        locks, transactions = self.waiting.outstanding(self.rows)
        return len(locks), len(transactions)


def stored_vacuums(rows: Store) -> Iterator[StoredVacuum]:
    """The vacuums that wait, of every table, in no particular order."""
    return (StoredVacuum(vacuum, rows) for vacuum in waiting_vacuums(rows))
