"""A decider's memory of one partition: states by table, and how far the inputs were applied.

In the changelog, the record of a table holds its state and the input positions at which it stood;
one more record holds the positions of the whole partition, and one the broker's ids of the input
topics, written once: positions mean nothing on another topic of the same name. They are written
in this order: ids, tables, positions, then the removal of empty tables. Whatever a crash leaves of
that sequence, an event counts once: a table's own positions cover it until the partition's do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter

from tidegate.errors import FormatError, OffsetGapError, StopService
from tidegate.runtime.bus import Extent
from tidegate.runtime.entry import Entry, Positions, entry_form

S = TypeVar("S")

POSITIONS_KEY: Final = b"\x00positions"
"""No table identity begins with a zero byte."""
TOPIC_IDS_KEY: Final = b"\x00topic-ids"
_WAY_OUT: Final = (
    "Find out what is missing; to go on with what the topic holds now:"
    " tidegate replay group <service> --to-earliest --execute"
)
_POSITIONS: Final = TypeAdapter(Positions)
_TOPIC_IDS: Final = TypeAdapter(dict[str, str])


@dataclass(slots=True)
class Ledger(Generic[S]):
    """The memory of one partition. `stage` changes it, `entries` says what to write for that."""

    form: TypeAdapter[Entry[S]]
    """How an entry is read from JSON, and written."""
    initial: S
    positions: Positions = field(default_factory=dict[str, int])
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    _asleep: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Tables as they were read back, until they are heard of: a million may sleep here."""
    _awake: dict[str, S] = field(default_factory=dict[str, S])
    _ahead: dict[str, Positions] = field(default_factory=dict[str, Positions])
    """Of tables that woke: their own positions, where a crash left the partition's behind."""
    _changed: set[str] = field(default_factory=set[str])
    _new_topics: bool = False

    def restore(self, changelog: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Read a whole changelog back.

        Raises:
            FormatError: the positions can't be read: a decider must not start on half a memory.
                What is kept of a table is read when the table is heard of.
        """
        try:
            for key, value in changelog:
                self._take(key, value)
        except ValueError as error:
            raise FormatError(f"the changelog can't be read: {error}") from error

    def _take(self, key: bytes, value: bytes | None) -> None:
        if key == POSITIONS_KEY:
            self.positions = _POSITIONS.validate_json(value or b"{}")
        elif key == TOPIC_IDS_KEY:
            self.topic_ids = _TOPIC_IDS.validate_json(value or b"{}")
        elif value is None:
            self._asleep.pop(key.decode(), None)
        else:
            self._asleep[key.decode()] = value

    def __len__(self) -> int:
        """How many tables are remembered."""
        return len(self._asleep) + len(self._awake)

    def entries_kept(self) -> Iterator[tuple[str, Entry[S]]]:
        """Every table that is remembered, by its name, and what is kept of it."""
        for table in sorted({*self._asleep, *self._awake}):
            kept = self._asleep.get(table)
            yield table, self._entry(table) if kept is None else self._read(table, kept)

    def check(self, topic: str, extent: Extent, start: int | None = None) -> None:
        """Compare what is remembered of an input partition with what it holds now.

        `start` is the offset that the group reads on from: it is acknowledged only after it was
        remembered, so a memory that lies behind it has been lost.

        Raises:
            OffsetGapError: events would be passed over: some are gone that were never applied, or
                this is another topic, whose offsets say nothing of what was applied.
        """
        at = self.positions.get(topic, extent.first)
        self._new_topics |= topic not in self.topic_ids
        if self.topic_ids.setdefault(topic, extent.topic_id) != extent.topic_id:
            raise OffsetGapError(
                f"{topic} was deleted and created again since its offset {at} was applied: events"
                f" may be lost. {_WAY_OUT}"
            )
        if start is not None and start > at:
            raise OffsetGapError(
                f"{topic} is acknowledged up to offset {start}, but remembered only up to {at}: the"
                f" changelog has lost what was decided in between. {_WAY_OUT}"
            )
        if not extent.first <= at <= extent.end:
            raise OffsetGapError(
                f"offset {at} of {topic} is to be applied next, but it holds {extent.first} to"
                f" {extent.end}: events would be skipped. {_WAY_OUT}"
            )

    def state(self, table: str) -> S:
        """The state of a table; the initial one where nothing is kept.

        Raises:
            StopService: what is kept can't be read: nothing may be decided without it.
        """
        if table in self._asleep:
            self._wake(table)
        return self._awake.get(table, self.initial)

    def applied_to(self, topic: str) -> int:
        """Up to which offset a topic was applied, by the partition's positions."""
        return self.positions.get(topic, 0)

    def has_applied_to(self, table: str, topic: str, offset: int) -> bool:
        """Whether this offset was already applied, by the table's own positions."""
        if table in self._asleep:
            self._wake(table)
        return table in self._ahead and offset < self._ahead[table].get(topic, 0)

    def stage(self, table: str, state: S) -> None:
        """Put a table's next state in place; the very same object means that nothing changed."""
        if table in self._asleep:
            self._wake(table)
        if state is not self._awake.get(table, self.initial):
            self._awake[table] = state
            self._changed.add(table)

    def advance(self, topic: str, offset: int) -> None:
        """Say that the record at this offset, which was not applied before, has been dealt with."""
        self.positions[topic] = offset + 1

    def entries(self) -> list[tuple[bytes, bytes | None]]:
        """What to append for all that was staged since the last call, in the order to write."""
        written: list[tuple[bytes, bytes | None]] = []
        removed: list[tuple[bytes, bytes | None]] = []
        for table in sorted(self._changed):
            entry = self._entry(table)
            written.append((table.encode(), self.form.dump_json(entry)))
            if entry.state == self.initial and table not in self._ahead:
                removed.append((table.encode(), None))
                del self._awake[table]
        self._changed.clear()
        if self._new_topics:
            written.insert(0, (TOPIC_IDS_KEY, _TOPIC_IDS.dump_json(self.topic_ids)))
            self._new_topics = False
        return [*written, (POSITIONS_KEY, _POSITIONS.dump_json(self.positions)), *removed]

    def _entry(self, table: str) -> Entry[S]:
        applied, own = self.positions, self._ahead.get(table, {})
        if self._passes(own):
            applied = {each: max(applied.get(each, 0), own.get(each, 0)) for each in applied | own}
        else:
            self._ahead.pop(table, None)
        return Entry(applied, self._awake[table])

    def _passes(self, applied: Positions) -> bool:
        """Whether a table's own positions lie beyond the partition's."""
        return any(at > self.positions.get(topic, 0) for topic, at in applied.items())

    def _wake(self, table: str) -> None:
        entry = self._read(table, self._asleep[table])
        del self._asleep[table]
        self._awake[table] = entry.state
        if self._passes(entry.applied):
            self._ahead[table] = entry.applied

    def _read(self, table: str, kept: bytes) -> Entry[S]:
        try:
            return self.form.validate_json(kept)
        except ValueError as error:
            raise StopService(f"what the changelog has of {table} can't be read") from error


def ledger_for(state_type: type[S], initial: S) -> Ledger[S]:
    """An empty ledger for a decider's states."""
    return Ledger(entry_form(state_type), initial)
