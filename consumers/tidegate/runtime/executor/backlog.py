"""Tracks which unfinished commands of a partition are in memory, and the others' offsets. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

_SHARE: Final = 10
"""A table may take a tenth of the free slots, so no number of tables takes all of them."""
_WINDOW: Final = 5000
"""Offsets of one read. The commands of other tables among them are read in vain."""


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """How many unfinished commands of one partition are read before it is paused.

    The next command of every table is always in memory. So memory holds at most `commands` +
    `tables` commands, and `size` bytes plus the next command of every table. An offset takes
    0.1 kB.
    """

    commands: int = 2000
    """Commands in memory, without the next one of each table."""
    size: int = 16 * 2**20
    """Bytes of the messages in memory, without the next one of each table."""
    tables: int = 2000
    """Tables with unfinished commands."""
    offsets: int = 100_000
    """Unfinished commands, in memory or not."""


@dataclass(slots=True)
class _Table:
    in_memory: int = 0
    offsets: deque[int] = field(default_factory=deque[int])
    """The offsets of the commands that are not in memory, ascending, after those in memory."""


@dataclass(slots=True)
class Backlog:
    """The unfinished commands of one partition, by table. The caller holds those in memory.

    Order of calls: `add` for each command that is read, in order; `finished` for each one in memory
    that is done. The caller reads `wanted` ones again and passes them to `bring_back`, in order.
    """

    limits: BacklogLimits = field(default_factory=BacklogLimits)
    _tables: dict[str, _Table] = field(default_factory=dict[str, _Table])
    _incomplete: dict[str, _Table] = field(default_factory=dict[str, _Table])
    """The tables with commands that are not in memory."""
    _in_memory: int = 0
    _size: int = 0
    _has_refused: bool = False
    """Whether a command that was read again was too large and no command was done since."""

    def add(self, table: str, offset: int, size: int) -> bool:
        """Add a command that was read, `size` bytes long.

        Returns:
            Whether the caller must hold it in memory. If not, only its offset is recorded here.
        """
        found = self._tables.setdefault(table, _Table())
        if not found.offsets and self._has_room(found, size):
            self._count(found, 1, size)
            return True
        found.offsets.append(offset)
        self._incomplete[table] = found
        return False

    def finished(self, table: str, size: int) -> None:
        """Remove a command in memory that is done."""
        found = self._tables[table]
        self._has_refused = False
        self._count(found, -1, -size)
        if not found.in_memory and not found.offsets:
            del self._tables[table]

    def wanted(self) -> Mapping[int, str]:
        """The offsets to read again now, ascending, with their tables; may be empty.

        Tables that have nothing in memory come first, then the oldest commands. All offsets are
        within one window of 5,000.
        """
        short = [(name, table) for name, table in self._incomplete.items() if self._is_short(table)]
        short.sort(key=lambda item: (item[1].in_memory > 0, item[1].offsets[0]))
        return dict(sorted(self._next_offsets(short)))

    def bring_back(self, table: str, offset: int, size: int) -> bool:
        """Add a wanted command that was read again.

        Returns:
            Whether the caller must hold it in memory. If not, its offset stays here for later.
        """
        found = self._incomplete.get(table)
        if found is None or found.offsets[0] != offset:
            return False
        if not self._has_room(found, size):
            self._has_refused = True
            return False
        found.offsets.popleft()
        if not found.offsets:
            del self._incomplete[table]
        self._count(found, 1, size)
        return True

    @property
    def is_full(self) -> bool:
        """Whether so many tables have unfinished commands that the partition must be paused."""
        return len(self._tables) >= self.limits.tables

    def _share(self, promised: int = 0) -> int:
        """How many commands of one table memory may hold now."""
        return max(1, (self.limits.commands - self._in_memory - promised) // _SHARE)

    def _has_room(self, table: _Table, size: int) -> bool:
        if not table.in_memory:
            return True
        return table.in_memory < self._share() and self._size + size <= self.limits.size

    def _is_short(self, table: _Table) -> bool:
        if not table.in_memory:
            return True
        is_open = self._size < self.limits.size and not self._has_refused
        return is_open and table.in_memory <= self._share() // 2

    def _next_offsets(self, tables: Sequence[tuple[str, _Table]]) -> Iterator[tuple[int, str]]:
        promised, window = 0, range(0)
        for name, table in tables:
            window = window or range(table.offsets[0], table.offsets[0] + _WINDOW)
            room = max(1, self._share(promised) - table.in_memory)
            for offset in islice(table.offsets, room):
                if offset not in window:
                    break
                promised += 1
                yield offset, name

    def _count(self, table: _Table, commands: int, size: int) -> None:
        table.in_memory += commands
        self._in_memory += commands
        self._size += size
