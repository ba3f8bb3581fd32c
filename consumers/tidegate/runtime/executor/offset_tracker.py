"""Tracks which offset of a partition may be committed when records finish out of order."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class OffsetTracker:
    """The records read from one partition, and the offset before which all of them are done."""

    end: int
    """The offset after the last record that was read; at first the group's committed offset."""
    max_tasks: int = 2000
    """So many unfinished tasks are read before the partition is paused."""
    max_bytes: int = 16 * 2**20
    """So many bytes of their messages are."""
    is_lost: bool = False
    """Whether the partition is no longer this process's: none of its commands starts any more."""
    tasks: set[bytes | None] = field(default_factory=set[bytes | None])
    """The messages of the tasks that are not done."""
    _pending: dict[int, int] = field(default_factory=dict[int, int])
    """The sizes of the records that are not done, by offset, ascending."""
    _size: int = 0
    _committed: int | None = None

    def __post_init__(self) -> None:
        """Nothing is to be committed before something was read."""
        self._committed = self.end

    def start(self, offset: int, size: int = 0) -> None:
        """Add a record that was read, of `size` bytes. Offsets ascend from call to call."""
        self._pending[offset] = size
        self._size += size
        self.end = offset + 1

    def finish(self, offset: int) -> None:
        """Mark a record as done: processed, or written to the dead letters."""
        self._size -= self._pending.pop(offset)

    def next_commit(self) -> int | None:
        """Return the offset to commit, or None if it has not changed since the last call.

        It is the offset of the first record that is not done, or of the next record to read.
        """
        position = next(iter(self._pending), self.end)
        if position == self._committed:
            return None
        self._committed = position
        return position

    def pass_end(self, end: int) -> None:
        """Advance past offsets that hold no record: all records before `end` were read."""
        self.end = max(self.end, end)

    def commit_again(self) -> None:
        """Make `next_commit` return the offset once more: its metadata has changed."""
        self._committed = None

    @property
    def is_full(self) -> bool:
        """Whether the partition must be paused until some of its records are done."""
        return self.pending >= self.max_tasks or self._size >= self.max_bytes

    @property
    def pending(self) -> int:
        """How many records were read and are not done.

        Finished records do not count, even behind an unfinished one: they need no memory.
        """
        return len(self._pending)
