"""The holds of tables and the quarantines that the reader gate has stored."""

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
    """A table whose cleaning is on hold. `since` is the broker's time."""

    table: str
    requested_by: str
    reason: str
    since: datetime
    event_id: str
    deferred: int
    """Cleanings that were released before the hold and wait for its end."""

    def __str__(self) -> str:
        """The table, the holder, the time and the reason."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.table}  held by {self.requested_by} since {since}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"since": self.since.isoformat(timespec="milliseconds")}


@dataclass(frozen=True, slots=True)
class QuarantinedDirectories:
    """The directories of one cleaning in quarantine. `until` is the broker's time."""

    table: str
    partition: str | None
    cleaning: str
    directories: int
    bytes: int
    until: datetime

    def __str__(self) -> str:
        """The table, the number of directories, the end of the quarantine and the cleaning."""
        where = f"/{self.partition}" if self.partition else ""
        until = f"{self.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        count = "1 directory" if self.directories == 1 else f"{self.directories} directories"
        return f"{self.table}{where}  {count} in quarantine until {until}, of {self.cleaning}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"until": self.until.isoformat(timespec="milliseconds")}


def holds_and_quarantines(
    store: StateStore[GateState],
) -> Iterator[HeldTable | QuarantinedDirectories]:
    """The holds and the quarantines of every table in a store, in no particular order.

    Raises:
        StopService: a record can't be read.
    """
    for table, _ in store.tables():
        pieces = store.state(table).loaded.pieces
        found = [pieces.get(name) for name in pieces.names() if is_ours(name)]
        deferred = sum(isinstance(piece, DeferredCleaning) for piece in found)
        for piece in found:
            if isinstance(piece, TableHold):
                since = datetime.fromisoformat(piece.since)
                yield HeldTable(
                    table, piece.requested_by, piece.reason, since, piece.event_id, deferred
                )
            elif isinstance(piece, KeptQuarantine) and not piece.undone:
                until = datetime.fromtimestamp(piece.due_ms / 1000, UTC)
                yield QuarantinedDirectories(
                    table, piece.partition, piece.cleaning, piece.directories, piece.bytes, until
                )
