"""Tracks which offset of a partition may be committed when records finish out of order."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class Limits:
    """How many unfinished tasks of one partition are read before it is paused."""

    tasks: int = 2000
    size: int = 16 * 2**20
    """Bytes of their messages."""


class Ownership(Enum):
    """Whether the commands that were read from a partition may run in this process."""

    OWNED = auto()
    SUSPENDED = auto()
    """Revoked: the partition may come back with the next assignment. No command starts before."""
    LOST = auto()
    """The partition went to another process: no command starts any more."""


@dataclass(slots=True)
class OffsetTracker:
    """The records read from one partition, and the offset before which all of them are done."""

    limits: Limits = field(default_factory=Limits)
    ownership: Ownership = Ownership.OWNED
    _pending: dict[int, int] = field(default_factory=dict[int, int])
    """The sizes of the records that are not done, by offset, ascending."""
    _size: int = 0
    _end: int | None = None
    """The offset after the last record that was read."""
    _first: int = 0
    _committed: int | None = None

    @classmethod
    def within(cls, limits: Limits, start: int) -> OffsetTracker:
        """A tracker of a partition that is read from the group's committed offset."""
        return cls(limits, _end=start, _first=start, _committed=start)

    def start(self, offset: int, size: int = 0) -> bool:
        """Add a record that was read, of `size` bytes.

        Offsets ascend from call to call, except after `resume`.

        Returns:
            Whether it is new. Otherwise it is done, waits for its turn, or runs.
        """
        if self._end is None:
            self._first = self._committed = offset
        elif offset < self._end:
            return False
        self._pending[offset] = size
        self._size += size
        self._end = offset + 1
        return True

    def resume(self, start: int) -> bool:
        """Continue after a revocation, if this process committed the group's offset.

        Args:
            start: The committed offset with which the partition was assigned again.

        Returns:
            Whether it continues. If not, another process has read on, or the group was reset.
        """
        position = self._position()
        if self.ownership is not Ownership.SUSPENDED or position is None:
            return False
        if not self._first <= start <= position:
            return False
        self.ownership, self._committed = Ownership.OWNED, start
        return True

    def finish(self, offset: int) -> None:
        """Mark a record as done: processed, or written to the dead letters."""
        self._size -= self._pending.pop(offset)

    def next_commit(self) -> int | None:
        """Return the offset to commit, or None if it has not changed since the last call.

        It is the offset of the first record that is not done, or of the next record to read.
        """
        position = self._position()
        if position == self._committed:
            return None
        self._committed = position
        return position

    def pass_end(self, end: int) -> None:
        """Advance past offsets that hold no record: all records before `end` were read."""
        if self._end is not None and end > self._end:
            self._end = end

    def commit_again(self) -> None:
        """Make `next_commit` return the offset once more: its metadata has changed."""
        self._committed = None

    def _position(self) -> int | None:
        return next(iter(self._pending), self._end)

    @property
    def is_full(self) -> bool:
        """Whether the partition must be paused until some of its records are done."""
        return self.pending >= self.limits.tasks or self._size >= self.limits.size

    @property
    def pending(self) -> int:
        """How many records were read and are not done.

        Finished records do not count, even behind an unfinished one: they need no memory.
        """
        return len(self._pending)
