"""What the reader gate keeps of people's holds on a table, and of cleanings that met one. Pure.

While a table is held, vacuums that become free go on waiting, and what the cleaner has deferred is
kept. The removal of the hold releases all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final

from tidegate.cleaning.gate_state import hashed
from tidegate.cleaning.held import released_again
from tidegate.events import CleaningDeferred, CleaningHoldRequested, CleaningReleased, Outcome
from tidegate.events.holds import CleaningHeld, CleaningHoldRemovalRequested, CleaningHoldRemoved
from tidegate.runtime.protocols import Pieces

HOLD: Final = "h"
"""The name of the record of a hold."""
DEFERRED: Final = "d"
"""The names of deferred cleanings' records begin with it."""
RETRY_MS: Final = 5_000
"""After so long a deferred cleaning of a table that is not held is released again: the gate may
not have read yet what the cleaner has."""


@dataclass(frozen=True, slots=True)
class TableHold:
    """Who holds a table, and why."""

    event_id: str
    requested_by: str
    reason: str
    since: str
    """The broker's time."""

    @classmethod
    def of(cls, event: CleaningHoldRequested, at: datetime) -> TableHold:
        """The hold of a request."""
        return cls(event.event_id, event.requested_by, event.reason, at.isoformat())


@dataclass(frozen=True, slots=True)
class DeferredCleaning:
    """A cleaning that met a hold; `retry_ms` is when to release it again, if no hold is known."""

    event: CleaningDeferred
    retry_ms: int | None


def hold_of(pieces: Pieces) -> TableHold | None:
    """The hold on a table; None: nobody holds it."""
    found = pieces.get(HOLD)
    return found if isinstance(found, TableHold) else None


def deferred_name(event: CleaningDeferred) -> str:
    """The name of the record of a deferred cleaning."""
    return f"{DEFERRED}{hashed(event.caused_by or ''):016x}"


def deferred_pieces(pieces: Pieces) -> dict[str, DeferredCleaning]:
    """All deferred cleanings of a table, by name."""
    return {
        name: piece
        for name in pieces.names()
        if name[0] == DEFERRED and isinstance(piece := pieces.get(name), DeferredCleaning)
    }


def deferral(event: CleaningDeferred, pieces: Pieces, now_ms: int) -> DeferredCleaning:
    """What is kept of a deferral."""
    retry_ms = now_ms + (event.retry_after_ms or RETRY_MS)
    return DeferredCleaning(event, None if hold_of(pieces) else retry_ms)


def due_deferred(
    piece: DeferredCleaning, pieces: Pieces, at: datetime, source: str
) -> tuple[DeferredCleaning | None, Sequence[CleaningReleased]]:
    """What becomes of a deferred cleaning when it is due: it is released, unless a hold came."""
    if hold_of(pieces):
        return replace(piece, retry_ms=None), ()
    return None, (released_again(piece.event, at, source),)


def said_held(event: CleaningHoldRequested, at: datetime, source: str) -> Outcome:
    """The answer to a request to hold."""
    return CleaningHeld.about(event, occurred_at=at, source=source)


def said_removed(
    event: CleaningHoldRemovalRequested, released: int, at: datetime, source: str
) -> Outcome:
    """The answer to a request to hold no more."""
    return CleaningHoldRemoved.about(event, occurred_at=at, source=source, released=released)


def dump_hold(piece: TableHold | DeferredCleaning) -> bytes:
    """The record of a piece."""
    if isinstance(piece, TableHold):
        return json.dumps(asdict(piece)).encode()
    event = piece.event.model_dump(mode="json")
    return json.dumps({"retry_ms": piece.retry_ms, "event": event}).encode()


def parse_hold(name: str, record: bytes) -> TableHold | DeferredCleaning:
    """The piece of a record.

    Raises:
        ValueError, TypeError, KeyError: it is not one that `dump_hold` made.
    """
    read = json.loads(record)
    if name == HOLD:
        return TableHold(**read)
    return DeferredCleaning(CleaningDeferred.model_validate(read["event"]), read["retry_ms"])
