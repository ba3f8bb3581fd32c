"""A decider's memory of one partition: states by table, and how far the inputs were applied.

In the changelog, the record of a table holds its state and the input positions at which it stood;
one more record holds the positions of the whole partition. They are written in this order: tables,
positions, then the removal of empty tables. Whatever a crash leaves of that sequence, an event
counts once: a table's own positions cover it until the partition's do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter

from tidegate.errors import FormatError
from tidegate.events import Value

S = TypeVar("S", bound=Value)
Positions = dict[str, int]

POSITIONS_KEY: Final = b"\x00positions"
"""No table identity begins with a zero byte."""
_POSITIONS: Final = TypeAdapter(Positions)


class Entry(Value, Generic[S], frozen=True):
    """What is kept of a table: the offset to apply next of each input topic, and the state."""

    applied: Positions
    state: S


@dataclass(slots=True)
class Ledger(Generic[S]):
    """The memory of one partition. `stage` changes it, `entries` says what to write for that."""

    entry_type: type[Entry[S]]
    initial: S
    positions: Positions = field(default_factory=dict[str, int])
    tables: dict[str, Entry[S]] = field(default_factory=dict[str, Entry[S]])
    _changed: set[str] = field(default_factory=set[str])

    def restore(self, changelog: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Read a whole changelog back.

        Raises:
            FormatError: an entry can't be read: a decider must not start on half a memory.
        """
        latest: dict[bytes, bytes | None] = dict(changelog)
        positions = latest.pop(POSITIONS_KEY, None)
        try:
            self.positions = _POSITIONS.validate_json(positions) if positions else {}
            self.tables = {
                key.decode(): self.entry_type.model_validate_json(value)
                for key, value in latest.items()
                if value is not None
            }
        except ValueError as error:
            raise FormatError(f"the changelog can't be read: {error}") from error

    def state(self, table: str) -> S:
        """The state of a table; the initial one where nothing is kept."""
        entry = self.tables.get(table)
        return entry.state if entry else self.initial

    def has_applied(self, topic: str, offset: int, table: str | None = None) -> bool:
        """Whether this offset was already applied, by the partition's positions or the table's."""
        entry = self.tables.get(table) if table else None
        own = entry.applied.get(topic, 0) if entry else 0
        return offset < max(self.positions.get(topic, 0), own)

    def stage(self, table: str, state: S) -> None:
        """Put a table's next state in place."""
        if state != self.state(table):
            self.tables[table] = self.entry_type(applied={}, state=state)
            self._changed.add(table)

    def advance(self, topic: str, offset: int) -> None:
        """Say that the record at this offset has been dealt with."""
        self.positions[topic] = max(self.positions.get(topic, 0), offset + 1)

    def entries(self) -> list[tuple[bytes, bytes | None]]:
        """What to append for all that was staged since the last call, in the order to write."""
        written: list[tuple[bytes, bytes | None]] = []
        removed: list[tuple[bytes, bytes | None]] = []
        for table in sorted(self._changed):
            entry = self.entry_type(applied=dict(self.positions), state=self.tables[table].state)
            self.tables[table] = entry
            written.append((table.encode(), entry.model_dump_json().encode()))
            if entry.state == self.initial:
                removed.append((table.encode(), None))
                del self.tables[table]
        self._changed.clear()
        return [*written, (POSITIONS_KEY, _POSITIONS.dump_json(self.positions)), *removed]


def ledger_for(state_type: type[S], initial: S) -> Ledger[S]:
    """An empty ledger for a decider's states."""
    return Ledger(Entry[state_type], initial)  # type: ignore[valid-type]
