"""The records that a piecewise decider has of a table beside its main one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.errors import PermanentError, StopService
from tidegate.runtime.protocols import PiecewiseDecider

MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record of a piece: every broker's default limit accepts it."""
TIMED_BYTES: Final = 1_000
"""By how much more a record may grow that time alone has changed, as one of which people were told:
no event could be refused for it. A changelog accepts the largest record twice."""
RECENT_BYTES: Final = 128 * 2**20
"""Of the pieces that a process also keeps as they were put, its partitions together, as objects."""
_VALUE_BYTES: Final = 64
"""What a value takes as an object besides its text, at most, with its share of tuples."""
UNREADABLE: Final = (ValueError, TypeError, LookupError)
"""What reading a record raises that can't be read."""


def require_small(
    decider: PiecewiseDecider[Any], pieces: Mapping[str, object], more: int = 0
) -> None:
    """Refuse pieces whose records would be larger than MAX_RECORD_BYTES, and so many `more`.

    Raises:
        PermanentError: one would.
    """
    for name, piece in pieces.items():
        if piece is None or decider.most_bytes(piece) <= MAX_RECORD_BYTES:
            continue
        if (size := len(decider.dump_piece(piece))) > MAX_RECORD_BYTES + more:
            raise PermanentError(
                f"the changelog would need a record of {size} bytes ({name}); at most"
                f" {MAX_RECORD_BYTES + more} are possible"
            )


@dataclass(slots=True)
class RecentPieces:
    """Pieces as they were put, beside their records: one that was put is soon asked for again.

    Where they are too large together, all are forgotten, and parsed when asked for. How large one
    is its record tells: numbers take ten times as much as objects. A packed record does not tell;
    its piece, which has very many values, is not kept.
    """

    limit: int = RECENT_BYTES
    _tables: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    _bytes: int = 0

    def of(self, table: str) -> dict[str, object]:
        """Those of a table by name, none of them removed since. A live view; removals go there."""
        return self._tables.setdefault(table, {})

    def keep(self, kept: dict[str, object], name: str, piece: object, record: bytes) -> None:
        """Keep one that was put, in the view of its table, unless its record is no JSON."""
        if not record.startswith(_JSON):
            kept.pop(name, None)
            return
        self._bytes += len(record) + _VALUE_BYTES * record.count(b",")
        kept[name] = piece
        if self._bytes > self.limit:
            self._forget_all()

    def bound(self, limit: int) -> None:
        """Keep no more than this from now on: a process that owns more partitions shares it out."""
        self.limit = limit
        if self._bytes > limit:
            self._forget_all()

    def _forget_all(self) -> None:
        self._bytes = 0
        for table in self._tables.values():
            table.clear()

    def forget(self, table: str) -> None:
        """Nothing is stored of a table any more, and nobody has a view of it."""
        self._tables.pop(table, None)


_JSON: Final = (b"{", b"[")


@dataclass(frozen=True, slots=True)
class TablePieces:
    """The view that a piecewise decider has of a table's pieces."""

    table: str
    changed: Mapping[str, object]
    """Pieces that are not yet serialized; None for those removed."""
    records: Mapping[str, bytes]
    decider: PiecewiseDecider[Any]
    recent: Mapping[str, object]
    """Those that are kept as they were put, too."""

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
        if (piece := self.recent.get(name)) is not None:
            return piece
        record = self.records.get(name)
        if record is None:
            return None
        try:
            return self.decider.parse_piece(name, record)
        except UNREADABLE as error:
            raise StopService(
                f"the changelog's record {name} of {self.table} can't be read"
            ) from error
