"""The coordinator's rows of one partition: SQLite in memory, rebuilt from the changelog.

Every row type is a table of its own. `put` and `drop` are the only ways to change a row that
lasts, because they note it for the changelog; what is derived from rows (`derived` columns) may be
set by SQL, and is derived again after a restart. One event is one transaction: `rollback` undoes
its rows and its messages, and nothing else.

A batch of records in the changelog ends with the position. Records without a position after them
were cut off: `restore` ignores them, and the next batch writes those keys again.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidegate.coordinator.rows import records
from tidegate.coordinator.rows.position import POSITION_KEY, Position
from tidegate.errors import FormatError
from tidegate.events.wire import Message
from tidegate.runtime.bus import ChangelogRecord


@dataclass(frozen=True, slots=True)
class RowType:
    """A table of SQLite, with the columns that the changelog has, and derived ones.

    The first column is `tbl`, the table's identity. The columns hold integers or NULL, `body` holds
    JSON.
    """

    name: str
    columns: tuple[str, ...] = ()
    key: str | None = None
    """The second column of the primary key, an integer; None: one row a table."""
    has_body: bool = False
    derived: tuple[str, ...] = ()
    """Columns that are not in the changelog."""
    indexes: tuple[str, ...] = ()
    """SQL behind `create index`."""

    @property
    def schema(self) -> str:
        """The SQL that creates it."""
        key = ("tbl", self.key) if self.key else ("tbl",)
        body = ("body",) if self.has_body else ()
        columns = ", ".join((*key, *self.columns, *body, *self.derived))
        # rows with large bodies are slow in the tree of a table without row ids
        suffix = "" if self.has_body else " without rowid"
        indexes = "".join(f"create index {index};" for index in self.indexes)
        table = f"create table {self.name} ({columns}, primary key ({', '.join(key)})){suffix};"
        return table + indexes

    @property
    def insert(self) -> str:
        """The SQL that inserts or replaces a row."""
        fields = 1 + bool(self.key) + len(self.columns) + self.has_body + len(self.derived)
        return f"insert or replace into {self.name} values ({', '.join('?' * fields)})"  # noqa: S608

    @property
    def delete(self) -> str:
        """The SQL that removes a row."""
        where = f"tbl = ? and {self.key} = ?" if self.key else "tbl = ?"
        return f"delete from {self.name} where {where}"  # noqa: S608


OUTBOX: Final = RowType("outbox", key="sequence", has_body=True)
"""Outcomes that were decided and perhaps not published; of the partition, so its table is empty."""


class Store:
    """The rows of one partition.

    Order of calls: `restore`; then for each event `begin`, the subject's `put` and `drop`, and
    `commit` or `rollback`; then `batch`, whose records are to be appended to the changelog.
    """

    def __init__(self, row_types: Iterable[RowType]) -> None:
        """Create empty tables."""
        self.row_types = {it.name: it for it in (*row_types, OUTBOX)}
        self.position = Position()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # a store that is dropped without `close` frees its memory too
        weakref.finalize(self, self._db.close).atexit = False
        self._db.executescript("".join(it.schema for it in self.row_types.values()))
        self.execute = self._db.execute
        self._put = {name: it.insert for name, it in self.row_types.items()}
        self._delete = {name: it.delete for name, it in self.row_types.items()}
        self._batch_changes: dict[bytes, bytes | None] = {}
        """Records of the next batch."""
        self._event_changes: dict[bytes, bytes | None] = {}
        """Those of the event that is being decided."""
        self.unsent: list[Message] = []
        """The messages to publish, in the order in which they were decided."""
        self._event_messages: list[Message] = []
        self._sequence = 0
        self.new_ends = Counter[str]()
        """By table the ends since `memory.forget` last ran, or fewer; not restored."""

    # Rows

    def one(self, sql: str, *parameters: Any) -> Any:  # noqa: ANN401 - a row's columns
        """The first row of a query, or None."""
        return self.execute(sql, parameters).fetchone()

    def all(self, sql: str, *parameters: Any) -> list[Any]:  # noqa: ANN401 - a row's columns
        """All rows of a query."""
        return self.execute(sql, parameters).fetchall()

    def put(  # noqa: PLR0913, PLR0917 - the parts of a row
        self,
        row_type: str,
        table: str,
        key: int | None = None,
        columns: Sequence[int | str | None] = (),
        body: str | None = None,
        derived: Sequence[object] = (),
    ) -> None:
        """Insert a row, or replace it. `columns` and `derived` are in the order of its type's.

        Raises:
            PermanentError: its record is too large for the changelog.
        """
        row: list[object] = [table] if key is None else [table, key]
        row += columns
        if body is not None:
            row.append(body)
        self.execute(self._put[row_type], (*row, *derived))
        self._event_changes[records.row_key(table, row_type, key)] = records.row_value(
            columns, body
        )

    def drop(self, row_type: str, table: str, key: int | None = None) -> None:
        """Remove a row, if it is there."""
        if self.execute(self._delete[row_type], (table,) if key is None else (table, key)).rowcount:
            self._event_changes[records.row_key(table, row_type, key)] = None

    # Messages

    def publish(self, message: Message) -> None:
        """Publish a message once what the event changed is in the changelog.

        After a crash it is not published again unless a row leads to it.
        """
        self._event_messages.append(message)

    def add_to_outbox(self, message: Message) -> None:
        """Publish a message; its row lets a successor publish it."""
        self.put(OUTBOX.name, "", self.next_sequence(), body=records.dump_message(message))
        self.publish(message)

    def next_sequence(self) -> int:
        """A number above those of all rows that are in a sequence."""
        self._sequence += 1
        return self._sequence

    def published(self) -> None:
        """All messages were published: a later batch removes their rows from the changelog."""
        self.unsent.clear()
        self.begin()
        for (sequence,) in self.all("select sequence from outbox"):
            self.drop(OUTBOX.name, "", sequence)
        self.commit()

    # Transactions

    def begin(self) -> None:
        """Begin the transaction of one event."""
        self.execute("savepoint event")

    def commit(self) -> None:
        """Keep what the event has changed."""
        self.execute("release event")
        self._batch_changes.update(self._event_changes)
        self._event_changes.clear()
        self.unsent += self._event_messages
        self._event_messages.clear()

    def rollback(self) -> None:
        """Undo what the event has changed, and nothing else."""
        self.execute("rollback to event")
        self.execute("release event")
        self._event_changes.clear()
        self._event_messages.clear()
        self.new_ends.clear()  # the row that a table's first one made is gone, too

    # Changelog

    def advance(self, topic: str, offset: int) -> None:
        """The record at this offset was applied, or needs nothing."""
        self.position.offsets[topic] = offset + 1

    def applied_to(self, topic: str) -> int:
        """The next offset of a topic to apply."""
        return self.position.offsets.get(topic, 0)

    @property
    def has_changes(self) -> bool:
        """Whether rows changed since the last batch."""
        return bool(self._batch_changes)

    def batch(self) -> list[ChangelogRecord]:
        """The records to append for all changes since the last call; the position is the last."""
        self.position.sequence = self._sequence
        batch = [*self._batch_changes.items(), self.position.record()]
        self._batch_changes.clear()
        return batch

    def restore(self, log: Iterable[ChangelogRecord]) -> None:
        """Read a changelog back, up to its last end mark. Rows of other types are ignored.

        Args:
            log: All its records, oldest first.

        Raises:
            FormatError: a record can't be read: nothing may be decided without it.
        """
        rows, self.position, cut = _whole_batches(log)
        # written again, or a later end mark would make half a batch count
        self._batch_changes = {key: rows.get(key) for key in cut}
        self.execute("begin")
        while rows:
            self._restore_row(*rows.popitem())
        self.execute("commit")
        self._sequence = self.position.sequence
        outbox = self.all("select body from outbox order by sequence")
        try:
            self.unsent = [records.load_message(body) for (body,) in outbox]
        except (ValueError, TypeError) as error:
            raise FormatError(f"the outbox in the changelog can't be read: {error!r}") from error

    def _restore_row(self, key: bytes, value: bytes) -> None:
        try:
            table, name, number = records.key_parts(key)
            if name not in self.row_types:
                return
            row_type = self.row_types[name]
            columns, body = records.columns_and_body(value)
            row: list[object] = [table, int(number)] if row_type.key else [table]
            row += columns
            if row_type.has_body:
                row.append(body)
            self.execute(self._put[name], (*row, *[None] * len(row_type.derived)))
        except (ValueError, LookupError, TypeError, sqlite3.Error) as error:
            raise FormatError(
                f"the record {key!r} of the changelog can't be read: {error!r}"
            ) from error

    def tables(self) -> set[str]:
        """The tables that have rows."""
        selects = (f"select tbl from {name}" for name in self.row_types)  # noqa: S608
        return {table for (table,) in self.execute(" union ".join(selects))} - {""}

    def close(self) -> None:
        """Free the memory."""
        self._db.close()


def _whole_batches(
    log: Iterable[ChangelogRecord],
) -> tuple[dict[bytes, bytes], Position, Iterable[bytes]]:
    """The rows and the position up to the last end mark, and the keys that come behind it."""
    rows: dict[bytes, bytes] = {}
    position = Position()
    behind: dict[bytes, bytes | None] = {}
    for key, value in log:
        if key != POSITION_KEY:
            behind[key] = value
            continue
        position = Position.of(value or b"{}")
        for name, changed in behind.items():
            if changed is None:
                rows.pop(name, None)
            else:
                rows[name] = changed
        behind.clear()
    return rows, position, behind
