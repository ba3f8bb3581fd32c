"""The records that a piecewise decider has of a table beside its main one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tidegate.errors import PermanentError, StopService
from tidegate.runtime.protocols import PiecewiseDecider

PieceRecords = Mapping[str, bytes | None]
"""By name the record of a piece that changed; None for one that was removed."""
NO_RECORDS: Final[PieceRecords] = MappingProxyType({})
MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record of a piece: every broker's default limit accepts it."""
UNREADABLE: Final = (ValueError, TypeError, KeyError)
"""What reading a record raises that can't be read."""


def require_small(records: PieceRecords) -> None:
    """Refuse records that are larger than MAX_RECORD_BYTES.

    Raises:
        PermanentError: one is.
    """
    for name, record in records.items():
        if record is not None and len(record) > MAX_RECORD_BYTES:
            raise PermanentError(
                f"the changelog would need a record of {len(record)} bytes ({name}); at most"
                f" {MAX_RECORD_BYTES} are possible"
            )


@dataclass(frozen=True, slots=True)
class TablePieces:
    """The view that a piecewise decider has of a table's pieces."""

    table: str
    records: Mapping[str, bytes]
    decider: PiecewiseDecider[Any]

    def names(self) -> Iterable[str]:
        """Every name."""
        return self.records.keys()

    def get(self, name: str) -> object | None:
        """The piece of a name.

        Raises:
            StopService: its record can't be read: nothing may be decided without it.
        """
        record = self.records.get(name)
        if record is None:
            return None
        try:
            return self.decider.parse_piece(name, record)
        except UNREADABLE as error:
            raise StopService(
                f"the changelog's record {name} of {self.table} can't be read"
            ) from error
