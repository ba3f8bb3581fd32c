"""A decider's state of one partition: by table, and up to where the inputs were applied.

In the changelog a table has a main record, under its name, with its state and the input positions
up to which that was applied. A piecewise decider has further records of the table, its pieces,
under `table, zero byte, name`. Three records are the partition's own: its positions, the broker's
ids of the input topics (positions mean nothing on another topic of the same name), and the number
of partitions that the changelog was made for (a table may be on another partition where there are
more).

One write has this order: ids and number; then by table its new and changed pieces, its removed
ones, its main record; then the partition's positions; last the removal of tables whose state is
empty. Whatever prefix of that a crash leaves, an event counts once: the main record of a table
comes after its pieces, and its own positions cover it until the partition's do. Only the table in
whose pieces the prefix ends is decided again on what had been written of it.

Records stay bytes until an event of their table arrives, and become bytes again when other tables
are loaded: memory follows the size of the changelog, plus a bounded number of loaded tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import TypeAdapter

from tidegate.errors import (
    ConfigError,
    FormatError,
    OffsetGapError,
    StopService,
)
from tidegate.runtime.bus import ChangelogRecord, Watermarks
from tidegate.runtime.decider.piece_timers import PieceTimers
from tidegate.runtime.decider.pieces import UNREADABLE, RecentPieces, TablePieces
from tidegate.runtime.decider.state_record import Positions, StateRecord, record_adapter
from tidegate.runtime.protocols import NO_PIECES, Decider, PiecewiseDecider, PiecewiseTimedDecider

S = TypeVar("S")

POSITIONS_KEY: Final = b"\x00positions"
"""No table identity begins with a zero byte."""
TOPIC_IDS_KEY: Final = b"\x00topic-ids"
PARTITIONS_KEY: Final = b"\x00partitions"
_SEPARATOR: Final = b"\x00"
"""Nor does one contain it."""
_LOADED_LIMIT: Final = 4_000_000
"""About how many ids, or tables where states have no length, stay loaded: some 400 MB."""
_LOADS_BETWEEN: Final = 500
_HOW_TO_GO_ON: Final = (
    "Find out what is missing; to go on with what the topic holds now:"
    " tidegate replay group <service> --to-earliest --execute"
)
_POSITIONS: Final = TypeAdapter(Positions)
_TOPIC_IDS: Final = TypeAdapter(dict[str, str])
_COUNT: Final = TypeAdapter(int)


@dataclass(slots=True)
class _LoadedTable(Generic[S]):
    """A table whose main record is parsed, and what changed of it since the last write."""

    state: S
    changed: dict[str, object] = field(default_factory=dict[str, object])
    """Pieces that are not yet serialized; None for those removed."""


@dataclass(slots=True)
class StateStore(Generic[S]):
    """The state of one partition: `put` changes it, `changed_records` is what to write then."""

    adapter: TypeAdapter[StateRecord[S]]
    """Reads a main record from JSON, and writes it."""
    initial: S
    piecewise: PiecewiseDecider[S] | None = None
    """The decider, if its tables have pieces."""
    loaded_limit: int = _LOADED_LIMIT
    positions: Positions = field(default_factory=dict[str, int])
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    partitions: int | None = None
    """The number of partitions that the changelog was made for; None where it does not say."""
    _records: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The main records, as they are written: there may be a million tables."""
    all_pieces: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    """By table the further records, as they are written."""
    _loaded: dict[str, _LoadedTable[S]] = field(default_factory=dict[str, _LoadedTable[S]])
    ahead: dict[str, Positions] = field(default_factory=dict[str, Positions])
    """Own positions of loaded tables that are ahead of the partition's, as after a crash."""
    _changed: set[str] = field(default_factory=set[str])
    recent: RecentPieces = field(default_factory=RecentPieces)
    timers: PieceTimers | None = None
    """When pieces are due, if the decider is a timed one."""
    _new_header: bool = False
    """Whether the ids of topics, or the number of partitions, are to be written."""
    _loads: int = 0

    def restore(self, changelog: Iterable[ChangelogRecord]) -> None:
        """Read a whole changelog back.

        Raises:
            FormatError: the positions can't be read: a decider must not start on half its state.
                The records of a table are parsed when an event of that table arrives.
        """
        try:
            for key, value in changelog:
                self._restore_record(key, value)
        except ValueError as error:
            raise FormatError(f"the changelog can't be read: {error}") from error

    def _restore_record(self, key: bytes, value: bytes | None) -> None:
        table, separator, name = key.partition(_SEPARATOR)
        if not table:
            self._restore_own(key, value)
        elif not separator:
            if value is None:
                self._records.pop(table.decode(), None)
            else:
                self._records[table.decode()] = value
        elif value is not None:
            self.all_pieces.setdefault(table.decode(), {})[name.decode()] = value
        elif pieces := self.all_pieces.get(table.decode()):
            pieces.pop(name.decode(), None)

    def _restore_own(self, key: bytes, value: bytes | None) -> None:
        if key == POSITIONS_KEY:
            self.positions = _POSITIONS.validate_json(value or b"{}")
        elif key == TOPIC_IDS_KEY:
            self.topic_ids = _TOPIC_IDS.validate_json(value or b"{}")
        elif key == PARTITIONS_KEY:
            self.partitions = None if value is None else _COUNT.validate_json(value)

    def clear(self) -> None:
        """Forget all tables, for the sake of memory: it is not used any more."""
        for each in (self._records, self.all_pieces, self._loaded):
            each.clear()
        self.recent = RecentPieces()

    def __len__(self) -> int:
        """How many tables have a state."""
        return len(self._records.keys() | self._changed)

    def tables(self) -> Iterator[tuple[str, StateRecord[S]]]:
        """Every table that has a state, in the order of names, and its main record.

        Raises:
            StopService: one of its records can't be read.
        """
        for table in sorted(self._records.keys() | self._changed):
            if table in self._changed:
                yield table, self._record(table)
                continue
            record = self._read(table)
            if view := self._view(table, NO_PIECES):
                for name in view.names():
                    view.get(name)
            yield table, record

    def pieces(self, table: str) -> Mapping[str, bytes]:
        """The records of a table beside its main one, as they were last written."""
        return self.all_pieces.get(table, {})

    def check(self, topic: str, watermarks: Watermarks, start: int | None = None) -> None:
        """Compare the positions in an input partition with what that holds now.

        `start` is the group's committed offset. It is committed only after the state is written, so
        positions before it mean that the changelog has lost records.

        Raises:
            OffsetGapError: events would be skipped: some were deleted before they were applied, or
                this is another topic, in which the positions mean nothing.
        """
        at = self.positions.get(topic, watermarks.first)
        self._new_header |= topic not in self.topic_ids
        if self.topic_ids.setdefault(topic, watermarks.topic_id) != watermarks.topic_id:
            raise OffsetGapError(
                f"{topic} was deleted and created again since its offset {at} was applied: events"
                f" may be lost. {_HOW_TO_GO_ON}"
            )
        if start is not None and start > at:
            raise OffsetGapError(
                f"{topic} is committed up to offset {start}, but the state was written only up to"
                f" {at}: the changelog has lost what was decided in between. {_HOW_TO_GO_ON}"
            )
        if not watermarks.first <= at <= watermarks.end:
            raise OffsetGapError(
                f"offset {at} of {topic} is to be applied next, but it holds {watermarks.first} to"
                f" {watermarks.end}: events would be skipped. {_HOW_TO_GO_ON}"
            )

    def check_partitions(self, count: int) -> None:
        """Compare the number of partitions that the changelog was made for with the topics'.

        Raises:
            ConfigError: it is another: some tables' events would now arrive on a partition that
                does not have their state.
        """
        if self.partitions is None:
            self.partitions, self._new_header = count, True
        if self.partitions != count:
            raise ConfigError(
                f"the topics have {count} partitions, but the state was made for {self.partitions}:"
                " the state of some tables is on another partition than their events. Move to"
                " new topics: see More partitions in docs/topics.md"
            )

    def state(self, table: str) -> S:
        """The state of a table; the initial one where it has none.

        Raises:
            StopService: its records can't be read: nothing may be decided without them.
        """
        loaded = self._loaded.get(table)
        return (self._load(table) if loaded is None else loaded).state

    def applied_to(self, topic: str) -> int:
        """The next offset of a topic to apply, by the partition's positions."""
        return self.positions.get(topic, 0)

    def has_applied_to(self, table: str, topic: str, offset: int) -> bool:
        """Whether this offset was already applied to the table, by its own positions."""
        if table not in self._loaded:
            self._load(table)
        return table in self.ahead and offset < self.ahead[table].get(topic, 0)

    def put(self, table: str, state: S, pieces: Mapping[str, object] = NO_PIECES) -> None:
        """Set a table's next state and changed pieces (None removes one).

        The very same state object, and no pieces, mean that nothing changed.
        """
        loaded = self._loaded.get(table) or self._load(table)
        if pieces:
            loaded.changed.update(pieces)
        elif state is loaded.state:
            return
        loaded.state = state
        self._changed.add(table)

    def reopen(self, table: str) -> None:
        """Discard what a decision that raised may have changed in place."""
        loaded = self._loaded.get(table)
        if loaded is None or self.piecewise is None:
            return
        if view := self._view(table, loaded.changed):
            loaded.state = self.piecewise.prepare(loaded.state, view)

    def advance(self, topic: str, offset: int) -> None:
        """The record at this offset has been applied, or needs nothing."""
        self.positions[topic] = offset + 1

    def changed_records(self) -> list[ChangelogRecord]:
        """The records to append for all changes since the last call, in the order to write."""
        written = self._header()
        removed: list[ChangelogRecord] = []
        for table in sorted(self._changed):
            loaded = self._loaded[table]
            written += self._changed_pieces(table, loaded)
            value = self.adapter.serializer.to_json(self._record(table))
            self._records[table] = value
            written.append((table.encode(), value))
            is_empty = loaded.state == self.initial and not self.all_pieces.get(table)
            if is_empty and table not in self.ahead:
                removed.append((table.encode(), None))
                self.all_pieces.pop(table, None)
                self.recent.forget(table)
                del self._records[table], self._loaded[table]
        self._changed.clear()
        return [*written, (POSITIONS_KEY, _POSITIONS.dump_json(self.positions)), *removed]

    def _header(self) -> list[ChangelogRecord]:
        if not self._new_header:
            return []
        self._new_header = False
        header: list[ChangelogRecord] = [(TOPIC_IDS_KEY, _TOPIC_IDS.dump_json(self.topic_ids))]
        if self.partitions is not None:
            header.append((PARTITIONS_KEY, _COUNT.dump_json(self.partitions)))
        return header

    def _changed_pieces(self, table: str, loaded: _LoadedTable[S]) -> list[ChangelogRecord]:
        if not loaded.changed or self.piecewise is None:
            return []
        records = self.all_pieces.setdefault(table, {})
        recent = self.recent.of(table)
        put: list[ChangelogRecord] = []
        removed: list[ChangelogRecord] = []
        dump, keep, prefix = self.piecewise.dump_piece, self.recent.keep, f"{table}\x00"
        for name, piece in loaded.changed.items():
            if piece is not None:
                record = records[name] = dump(piece)
                put.append(((prefix + name).encode(), record))
                keep(recent, name, piece, record)
            elif records.pop(name, None) is not None:  # else it came and went within this write
                recent.pop(name, None)
                removed.append(((prefix + name).encode(), None))
        if self.timers is not None:
            self.timers.written(table, loaded.changed)
        loaded.changed.clear()
        return [*put, *removed]

    def _record(self, table: str) -> StateRecord[S]:
        applied, own = self.positions, self.ahead.get(table, {})
        if self._is_ahead(own):
            applied = {each: max(applied.get(each, 0), own.get(each, 0)) for each in applied | own}
        else:
            self.ahead.pop(table, None)
        return StateRecord(applied, self._loaded[table].state)

    def _is_ahead(self, applied: Positions) -> bool:
        """Whether a table's own positions are ahead of the partition's."""
        return any(at > self.positions.get(topic, 0) for topic, at in applied.items())

    def _load(self, table: str) -> _LoadedTable[S]:
        self._unload_some()
        loaded = _LoadedTable(self.initial)
        if table in self._records:
            record = self._read(table)
            loaded.state = record.state
            if self._is_ahead(record.applied):
                self.ahead[table] = record.applied
        if (view := self._view(table, loaded.changed)) and self.piecewise is not None:
            loaded.state = self.piecewise.prepare(loaded.state, view)
        self._loaded[table] = loaded
        return loaded

    def _view(self, table: str, changed: Mapping[str, object]) -> TablePieces | None:
        if self.piecewise is None:
            return None
        records = self.all_pieces.setdefault(table, {})
        return TablePieces(table, changed, records, self.piecewise, self.recent.of(table))

    def _read(self, table: str) -> StateRecord[S]:
        try:
            return self.adapter.validate_json(self._records[table])
        except UNREADABLE as error:
            raise StopService(f"the changelog's record of {table} can't be read") from error

    def _unload_some(self) -> None:
        """Unload the tables loaded first, where too much is loaded; nothing of them is lost."""
        self._loads += 1
        if self._loads % _LOADS_BETWEEN:
            return
        sizes = {table: _size(each.state) for table, each in self._loaded.items()}
        excess = sum(sizes.values()) - self.loaded_limit
        for table, size in sizes.items():
            if excess <= 0:
                return
            if table not in self._changed:
                del self._loaded[table]
                self.ahead.pop(table, None)
                excess -= size


def _size(state: object) -> int:
    return 1 + (len(state) if isinstance(state, Sized) else 0)


def state_store_for(state_type: type[S], initial: S) -> StateStore[S]:
    """An empty store for states of a type; pieces are kept as bytes."""
    return StateStore(record_adapter(state_type), initial)


def store_of(decider: Decider[S]) -> StateStore[S]:
    """An empty store for a decider."""
    store = state_store_for(decider.state_type, decider.initial())
    store.piecewise = decider if isinstance(decider, PiecewiseDecider) else None
    if isinstance(decider, PiecewiseTimedDecider):
        store.timers = PieceTimers(decider, store.all_pieces)
    return store
