"""The records that a piecewise decider has of a table beside its main one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegate.errors import PermanentError, StopService
from tidegate.runtime.protocols import PiecewiseDecider

MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record of a piece: every broker's default limit accepts it."""
UNREADABLE: Final = (ValueError, TypeError, KeyError)
"""What reading a record raises that can't be read."""


def require_small(decider: PiecewiseDecider[Any], pieces: Mapping[str, object]) -> None:
    """Refuse pieces whose records would be larger than MAX_RECORD_BYTES.

    Raises:
        PermanentError: one would.
    """
    for name, piece in pieces.items():
        if piece is None or decider.most_bytes(piece) <= MAX_RECORD_BYTES:
            continue
        if (size := len(decider.dump_piece(piece))) > MAX_RECORD_BYTES:
            raise PermanentError(
                f"the changelog would need a record of {size} bytes ({name}); at most"
                f" {MAX_RECORD_BYTES} are possible"
            )


@dataclass(frozen=True, slots=True)
class TablePieces:
    """The view that a piecewise decider has of a table's pieces."""

    table: str
    changed: Mapping[str, object]
    """Pieces that are not yet serialized; None for those removed."""
    records: Mapping[str, bytes]
    decider: PiecewiseDecider[Any]

    def names(self) -> Iterable[str]:
        """Every name."""
        changed = self.changed
        kept = [name for name in self.records if name not in changed]
        return [*kept, *(name for name, piece in changed.items() if piece is not None)]

    def get(self, name: str) -> object | None:
        """The piece of a name: as it was put, or parsed.

        Raises:
            StopService: its record can't be read: nothing may be decided without it.
        """
        if name in self.changed:
            return self.changed[name]
        record = self.records.get(name)
        if record is None:
            return None
        try:
            return self.decider.parse_piece(name, record)
        except UNREADABLE as error:
            raise StopService(
                f"the changelog's record {name} of {self.table} can't be read"
            ) from error
