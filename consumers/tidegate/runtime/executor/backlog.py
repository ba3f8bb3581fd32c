"""Which unfinished commands of a partition are in memory, and the offsets of the others. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

_SHARE: Final = 10
"""A table may take one in so many of the free places. So no number of tables takes all of them."""
_WINDOW: Final = 5000
"""Offsets that are read at once: other tables' commands in between are read for nothing."""


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """How many unfinished commands of one partition are read before it is paused.

    Each table's next command is always in memory, so that is at most `commands` + `tables` of them,
    and their messages at most `size` bytes beside those next ones. An offset takes 0.1 kB.
    """

    commands: int = 2000
    """In memory, beside the next one of each table."""
    size: int = 16 * 2**20
    """Bytes of the messages in memory, beside the next one of each table."""
    tables: int = 2000
    """Tables with unfinished commands."""
    offsets: int = 100_000
    """Unfinished commands, in memory or not."""


@dataclass(slots=True)
class _Table:
    in_memory: int = 0
    offsets: deque[int] = field(default_factory=deque[int])
    """Of the commands that are not in memory, ascending; all are behind those that are."""


@dataclass(slots=True)
class Backlog:
    """The unfinished commands of one partition, by table; those in memory are somebody else's.

    Order of calls: `add` for each command that is read, in order; `finished` for each that was in
    memory and is done. What is `wanted` then is read again and passed to `bring_back`, in order.
    """

    limits: BacklogLimits = field(default_factory=BacklogLimits)
    _tables: dict[str, _Table] = field(default_factory=dict[str, _Table])
    _incomplete: dict[str, _Table] = field(default_factory=dict[str, _Table])
    """The tables that have commands which are not in memory."""
    _in_memory: int = 0
    _size: int = 0
    _has_refused: bool = False
    """Whether something that was read again was too large, and nothing was done since."""

    def add(self, table: str, offset: int, size: int) -> bool:
        """Add a command that was read, `size` bytes long.

        Returns:
            Whether it belongs in memory. Else only its offset is kept here.
        """
        found = self._tables.setdefault(table, _Table())
        if not found.offsets and self._has_room(found, size):
            self._count(found, 1, size)
            return True
        found.offsets.append(offset)
        self._incomplete[table] = found
        return False

    def finished(self, table: str, size: int) -> None:
        """A command in memory is done."""
        found = self._tables[table]
        self._has_refused = False
        self._count(found, -1, -size)
        if not found.in_memory and not found.offsets:
            del self._tables[table]

    def wanted(self) -> Mapping[int, str]:
        """The offsets to read again now, ascending, each with its table; empty: none are needed.

        The oldest come first, and before them those of tables that have nothing in memory. All are
        close together.
        """
        short = [(name, each) for name, each in self._incomplete.items() if self._is_short(each)]
        short.sort(key=lambda each: (each[1].in_memory > 0, each[1].offsets[0]))
        return dict(sorted(self._next_offsets(short)))

    def bring_back(self, table: str, offset: int, size: int) -> bool:
        """A wanted command was read again.

        Returns:
            Whether it belongs in memory now. Else its offset stays here, for another time.
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
        """Whether too many tables have unfinished commands, to read more of the partition."""
        return len(self._tables) >= self.limits.tables

    def _share(self, promised: int = 0) -> int:
        """How many commands of one table may be in memory now."""
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
