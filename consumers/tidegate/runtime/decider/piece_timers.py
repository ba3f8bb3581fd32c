"""When the pieces of tables fall due: an index in the order of time. Derived, never stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final

from tidegate.runtime.decider.pieces import TablePieces
from tidegate.runtime.protocols import NO_PIECES, PiecewiseTimedDecider

_FEW: Final = 1024


class PieceTimers:
    """A heap of due times. A piece that was changed may still have its earlier times.

    Whoever takes what is due looks at the piece itself. Times of pieces that are gone are dropped
    once there are as many of them as of the others, so that entering one costs the same on average.
    The heap is made from all pieces when it is first asked for, and kept up to date from then on.
    """

    def __init__(
        self, decider: PiecewiseTimedDecider[Any], pieces: Mapping[str, Mapping[str, bytes]]
    ) -> None:
        """Take the decider, and by table the pieces' records, which others change."""
        self._decider, self._pieces = decider, pieces
        self._heap: list[tuple[int, str, str]] | None = None
        self._compact_above = _FEW

    def __len__(self) -> int:
        """How many times it holds, those of removed pieces included."""
        return len(self._heap or ())

    def is_due(self, now_ms: int) -> bool:
        """Whether some piece is due at a time of the broker, or was and is gone since."""
        heap = self._made()
        return bool(heap) and heap[0][0] <= now_ms

    def take(self, now_ms: int, limit: int) -> dict[str, set[str]]:
        """By table the names of pieces that are due, `limit` in all; each is given once."""
        heap, taken = self._made(), defaultdict[str, set[str]](set)
        for _ in range(limit):
            if not heap or heap[0][0] > now_ms:
                break
            _, table, name = heappop(heap)
            if self._is_there(table, name):
                taken[table].add(name)
        return taken

    def written(self, table: str, changed: Mapping[str, object]) -> None:
        """These pieces of a table have new records; None: removed."""
        if self._heap is None:
            return
        there = (name for name, piece in changed.items() if piece is not None)
        self._enter(self._heap, table, there, changed)
        if len(self._heap) > self._compact_above:
            self._heap = [each for each in self._heap if self._is_there(*each[1:])]
            heapify(self._heap)
            self._compact_above = max(_FEW, 2 * len(self._heap))

    def _made(self) -> list[tuple[int, str, str]]:
        if self._heap is None:
            self._heap = []
            for table, records in self._pieces.items():
                self._enter(self._heap, table, records, NO_PIECES)
            self._compact_above = max(_FEW, 2 * len(self._heap))
        return self._heap

    def _enter(
        self,
        heap: list[tuple[int, str, str]],
        table: str,
        names: Iterable[str],
        changed: Mapping[str, object],
    ) -> None:
        view = TablePieces(table, changed, self._pieces[table], self._decider, NO_PIECES)
        for name in names:
            due_ms = self._decider.due_ms(table, name, view)
            if due_ms is not None:
                heappush(heap, (due_ms, table, name))

    def _is_there(self, table: str, name: str) -> bool:
        return name in self._pieces.get(table, ())
