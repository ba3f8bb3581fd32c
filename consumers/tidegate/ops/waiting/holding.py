"""Who holds which table, and what waits in quarantine, as the reader gate has stored it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.cleaning.gate_holds import DeferredCleaning, TableHold
from tidegate.cleaning.gate_people import is_ours
from tidegate.cleaning.gate_quarantine import KeptQuarantine
from tidegate.cleaning.gate_state import GateState
from tidegate.runtime.decider.state_store import StateStore


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table that somebody holds. `since` is the broker's time."""

    table: str
    requested_by: str
    reason: str
    since: datetime
    event_id: str
    deferred: int
    """Cleanings that were released before the hold and wait for its end."""

    def __str__(self) -> str:
        """Who holds it since when, and why."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.table}  held by {self.requested_by} since {since}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"since": self.since.isoformat(timespec="milliseconds")}


@dataclass(frozen=True, slots=True)
class KeptCleaning:
    """What one cleaning has in quarantine. `until` is the broker's time."""

    table: str
    partition: str | None
    cleaning: str
    directories: int
    bytes: int
    until: datetime

    def __str__(self) -> str:
        """What is kept until when."""
        where = f"/{self.partition}" if self.partition else ""
        until = f"{self.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        count = "1 directory" if self.directories == 1 else f"{self.directories} directories"
        return f"{self.table}{where}  {count} in quarantine until {until}, of {self.cleaning}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"until": self.until.isoformat(timespec="milliseconds")}


def held_and_kept(store: StateStore[GateState]) -> Iterator[HeldTable | KeptCleaning]:
    """The holds and the quarantines of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        pieces = store.state(table).loaded.pieces
        found = [pieces.get(name) for name in pieces.names() if is_ours(name)]
        deferred = sum(isinstance(each, DeferredCleaning) for each in found)
        for each in found:
            if isinstance(each, TableHold):
                since = datetime.fromisoformat(each.since)
                yield HeldTable(
                    table, each.requested_by, each.reason, since, each.event_id, deferred
                )
            elif isinstance(each, KeptQuarantine) and not each.undone:
                until = datetime.fromtimestamp(each.due_ms / 1000, UTC)
                yield KeptCleaning(
                    table, each.partition, each.cleaning, each.directories, each.bytes, until
                )
