"""Which offset of a partition may be committed when records finish out of order."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """The records read from one partition, and the offset before which all of them are done."""

    _pending: dict[int, None] = field(default_factory=dict[int, None])
    """The offsets of the records that are not done, ascending."""
    _end: int | None = None
    """The offset after the last record that was read."""
    _committed: int | None = None

    def start(self, offset: int) -> None:
        """Add a record that was read; offsets ascend from call to call."""
        if self._end is None:
            self._committed = offset
        self._pending[offset] = None
        self._end = offset + 1

    def finish(self, offset: int) -> None:
        """Mark a record as done: processed, or written to the dead letters."""
        del self._pending[offset]

    def next_commit(self) -> int | None:
        """Give the offset to commit, or None if it has not changed since the last call.

        It is the offset of the next record to read: every record before it is done.
        """
        position = next(iter(self._pending), self._end)
        if position == self._committed:
            return None
        self._committed = position
        return position

    @property
    def pending(self) -> int:
        """How many records were read and are not done.

        Records that are done behind one that is not do not count: they need no memory.
        """
        return len(self._pending)
