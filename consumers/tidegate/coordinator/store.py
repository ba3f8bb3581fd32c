"""The coordinator's rows of one partition: SQLite in memory, rebuilt from the changelog.

Every kind of row is a table of its own. `put` and `drop` are the only ways to change a row that
lasts, because they note it for the changelog; what is derived from rows (`derived` columns) may be
set by SQL, and is derived again after a restart. One event is one transaction: `rollback` undoes
its rows and its messages, and nothing else.

A record of the changelog has the key `table, zero byte, kind, zero byte, number`. Its value is the
row: a JSON array of its columns and, where it has a body, that on a second line. The record
`position`, with the offset of every input, ends a batch: what has no such record behind it was cut
off, and `restore` puts it aside. The next batch writes those keys again.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import weakref
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import from_json

from tidegate.errors import ConfigError, FormatError, OffsetGapError, PermanentError
from tidegate.errors.commands import command_line
from tidegate.events.topics import Role
from tidegate.events.wire import Message
from tidegate.runtime.bus import ChangelogRecord, Partition, Watermarks

POSITION_KEY: Final = b"\x00position"
"""No table's identity begins with a zero byte, or contains one."""
MAX_RECORD_BYTES: Final = 1_000_000
"""The largest record: every broker's default limit accepts it, and the changelog's twice."""
MAX_UNPACKED: Final = 32 * 2**20
"""Bytes of a record before compression: one publication has at most 2 MiB, in JSON six times as
much; several of one vacuum, with different holds, may exceed it and are refused."""
_PACKED_ABOVE: Final = 100_000
_PACKED: Final = b"x"
"""The first byte of what zlib has compressed; the other records are JSON."""
_SEPARATOR: Final = "\x00"
_HOW_TO_GO_ON: Final = (
    "Find out what is missing; to go on with what the topic holds now, reset the service with"
    " `tidegate replay group`"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of row: a table of SQLite, with the columns that the changelog has, and others.

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


OUTBOX: Final = Kind("outbox", key="sequence", has_body=True)
"""Messages that were decided and perhaps not published; of the partition, so its table is empty."""


@dataclass(slots=True)
class Position:
    """How far the inputs are applied, and on which topics those offsets are."""

    offsets: dict[str, int] = field(default_factory=dict[str, int])
    """By input topic the offset to apply next."""
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    """The broker's ids: offsets mean nothing on another topic of the same name."""
    sequence: int = 0
    """The last number of the rows that are in a sequence."""
    partitions: int | None = None
    """For how many partitions the rows were made: with more a table may be on another."""

    def record(self) -> tuple[bytes, bytes]:
        """The record that ends a batch."""
        return POSITION_KEY, _POSITION.dump_json(self)

    def check(self, topic: str, watermarks: Watermarks, start: int | None) -> None:
        """Compare the position with an input topic as it is now.

        Args:
            topic: The input.
            watermarks: Of its partition.
            start: The group's committed offset; None: it has none.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost what followed from
                events whose offsets are committed.
        """
        at = self.offsets.setdefault(topic, watermarks.first)
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
        """Compare the number of partitions that the rows were made for with the topics'.

        Raises:
            ConfigError: it is another: some tables' events would now arrive on a partition that
                does not have their rows.
        """
        if self.partitions is None:
            self.partitions = count
        if self.partitions != count:
            raise ConfigError(
                f"the topics have {count} partitions, but the state was made for"
                f" {self.partitions}: the state of some tables is on another partition than their"
                " events. Move to new topics: see More partitions in docs/topics.md"
            )

    @classmethod
    def of(cls, value: bytes) -> Position:
        """Read it back.

        Raises:
            FormatError: it is not such a record.
        """
        try:
            return _POSITION.validate_json(value)
        except ValueError as error:
            raise FormatError(f"the changelog can't be read: {error}") from error


_POSITION: Final = TypeAdapter(Position)


def lost_head(where: Partition, first: int) -> str | None:
    """Why the rows of a changelog's partition are not all of them; None: they are.

    Args:
        where: The partition.
        first: Its first offset. Compaction never moves it, whatever it removes.
    """
    if not first:
        return None
    return (
        f"{where.topic}[{where.number}] begins at offset {first}: its first records were deleted,"
        " so rows of tables are missing. With cleanup.policy = compact, and nothing else, Kafka"
        " deletes none"
    )


def new_changelog(topic: str) -> str:
    """The commands after which the coordinator makes its rows again, from its inputs."""
    again = command_line(
        "replay group", Role.COORDINATOR, to_earliest=True, with_restores=True, execute=True
    )
    return (
        "wait until the workers have no lag, stop the coordinator (events that its topics no longer"
        " have are lost), then run, where BROKERS has the addresses of the brokers: kafka-topics"
        f' --bootstrap-server "$BROKERS" --delete --topic {topic}'
        f" && {command_line('topics create')} && {again}"
    )


class Store:
    """The rows of one partition.

    Order of calls: `restore`; then for each event `begin`, the subject's `put` and `drop`, and
    `commit` or `rollback`; then `batch`, whose records are to be appended to the changelog.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        """Create empty tables."""
        self.kinds = {kind.name: kind for kind in (*kinds, OUTBOX)}
        self.position = Position()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # a store that is dropped without `close` frees its memory too
        weakref.finalize(self, self._db.close).atexit = False
        self._db.executescript("".join(kind.schema for kind in self.kinds.values()))
        self.execute = self._db.execute
        self._put = {name: _put(kind) for name, kind in self.kinds.items()}
        self._delete = {name: _delete(kind) for name, kind in self.kinds.items()}
        self._changed: dict[bytes, bytes | None] = {}
        """Records of the next batch."""
        self._event: dict[bytes, bytes | None] = {}
        """Those of the event that is being decided."""
        self._sequence = 0

    # Rows

    def one(self, sql: str, *parameters: Any) -> Any:  # noqa: ANN401 - a row's columns
        """The first row of a query, or None."""
        return self.execute(sql, parameters).fetchone()

    def all(self, sql: str, *parameters: Any) -> list[Any]:  # noqa: ANN401 - likewise
        """All rows of a query."""
        return self.execute(sql, parameters).fetchall()

    def put(  # noqa: PLR0913, PLR0917 - the parts of a row
        self,
        kind: str,
        table: str,
        key: int | None = None,
        columns: Sequence[int | str | None] = (),
        body: str | None = None,
        derived: Sequence[object] = (),
    ) -> None:
        """Insert a row, or replace it.

        Args:
            kind: Its kind's name.
            table: The table's identity.
            key: The second part of its key.
            columns: In the order of the kind's.
            body: JSON.
            derived: In the order of the kind's; not in the changelog.

        Raises:
            PermanentError: its record is too large for the changelog.
        """
        row: list[object] = [table] if key is None else [table, key]
        row += columns
        if body is not None:
            row.append(body)
        self.execute(self._put[kind], (*row, *derived))
        head = dumps(columns)
        value = (head if body is None else f"{head}\n{body}").encode()
        is_large = len(value) > _PACKED_ABOVE
        self._event[row_key(table, kind, key)] = _packed(value) if is_large else value

    def drop(self, kind: str, table: str, key: int | None = None) -> None:
        """Remove a row, if it is there."""
        if self.execute(self._delete[kind], (table,) if key is None else (table, key)).rowcount:
            self._event[row_key(table, kind, key)] = None

    # Messages

    def send(self, messages: Iterable[Message]) -> None:
        """Add messages to the outbox."""
        for message in messages:
            self.put(OUTBOX.name, "", self.next_sequence(), body=dump_message(message))

    def next_sequence(self) -> int:
        """A number above those of all rows that are in a sequence."""
        self._sequence += 1
        return self._sequence

    def unsent(self) -> list[Message]:
        """The messages in the outbox, in the order in which they were decided."""
        rows = self.execute("select body from outbox order by sequence")
        return [load_message(body) for (body,) in rows]

    def sent(self) -> None:
        """All of them were published: a later batch removes them from the changelog."""
        for (sequence,) in self.all("select sequence from outbox"):
            self.drop(OUTBOX.name, "", sequence)
        self._keep_event()

    # Transactions

    def begin(self) -> None:
        """Begin the transaction of one event."""
        self.execute("savepoint event")

    def commit(self) -> None:
        """Keep what the event has changed."""
        self.execute("release event")
        self._keep_event()

    def rollback(self) -> None:
        """Undo what the event has changed, and nothing else."""
        self.execute("rollback to event")
        self.execute("release event")
        self._event.clear()

    def _keep_event(self) -> None:
        self._changed.update(self._event)
        self._event.clear()

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
        return bool(self._changed)

    def batch(self) -> list[ChangelogRecord]:
        """The records to append for all changes since the last call; the position is the last."""
        self._keep_event()
        self.position.sequence = self._sequence
        records: list[ChangelogRecord] = [*self._changed.items(), self.position.record()]
        self._changed.clear()
        return records

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Read a changelog back, up to its last end mark. Rows of other kinds are passed over.

        Args:
            records: All of them, oldest first.

        Raises:
            FormatError: a record can't be read: nothing may be decided without it.
        """
        rows: dict[bytes, bytes] = {}
        cut: dict[bytes, bytes | None] = {}
        for key, value in records:
            if key != POSITION_KEY:
                cut[key] = value
                continue
            self.position = Position.of(value or b"{}")
            for name, changed in cut.items():
                if changed is None:
                    rows.pop(name, None)
                else:
                    rows[name] = changed
            cut.clear()
        # written again, or a later end mark would make half a batch count
        self._changed = {key: rows.get(key) for key in cut}
        self.execute("begin")
        while rows:
            self._restore_row(*rows.popitem())
        self.execute("commit")
        self._sequence = self.position.sequence

    def _restore_row(self, key: bytes, value: bytes) -> None:
        try:
            table, name, second = key.decode().split(_SEPARATOR)
            if name not in self.kinds:
                return
            kind = self.kinds[name]
            head, _, body = _unpacked(value).partition(b"\n")
            row: list[object] = [table, int(second)] if kind.key else [table]
            row += json.loads(head)
            if kind.has_body:
                row.append(body.decode())
            self.execute(self._put[name], (*row, *[None] * len(kind.derived)))
        except (ValueError, LookupError, TypeError, sqlite3.Error) as error:
            raise FormatError(
                f"the record {key!r} of the changelog can't be read: {error!r}"
            ) from error

    def tables(self) -> set[str]:
        """The tables that have rows."""
        selects = (f"select tbl from {name}" for name in self.kinds)  # noqa: S608
        return {table for (table,) in self.execute(" union ".join(selects))} - {""}

    def close(self) -> None:
        """Free the memory."""
        self._db.close()


dumps: Final = json.JSONEncoder(separators=(",", ":")).encode
"""JSON for a row's body: ASCII, so halves of surrogate pairs are stored like all other text."""


def loads(body: str | bytes) -> Any:  # noqa: ANN401 - JSON
    """The value of such JSON.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return from_json(body)  # as `json.loads`, in half the time
    except ValueError:  # half of a surrogate pair, or not JSON
        return json.loads(body)


def hashed(text: str) -> int:
    """63 bits of SHA-256: a number that SQLite and every JSON reader can store."""
    digest = _fresh()
    digest.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:8]) >> 1


_fresh: Final = sha256().copy
"""Begins a hash at half the cost of finding the algorithm: it runs for every vacuum."""


def row_key(table: str, kind: str, key: int | None = None) -> bytes:
    """The key of a row's record in the changelog."""
    return f"{table}{_SEPARATOR}{kind}{_SEPARATOR}{'' if key is None else key}".encode()


def _put(kind: Kind) -> str:
    count = 1 + bool(kind.key) + len(kind.columns) + kind.has_body + len(kind.derived)
    return f"insert or replace into {kind.name} values ({', '.join('?' * count)})"  # noqa: S608


def _delete(kind: Kind) -> str:
    where = f"tbl = ? and {kind.key} = ?" if kind.key else "tbl = ?"
    return f"delete from {kind.name} where {where}"  # noqa: S608


def _packed(value: bytes) -> bytes:
    packed = zlib.compress(value) if len(value) <= MAX_UNPACKED else value
    if len(packed) > MAX_RECORD_BYTES:
        raise PermanentError(
            f"the changelog would need a record of {len(packed)} bytes ({len(value)} before"
            f" compression); at most {MAX_RECORD_BYTES} ({MAX_UNPACKED}) are possible"
        )
    return packed


def _unpacked(value: bytes) -> bytes:
    if value[:1] != _PACKED:
        return value
    reader = zlib.decompressobj()
    try:
        unpacked = reader.decompress(value, MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError(f"it was cut off, or expands beyond the limit of {MAX_UNPACKED} bytes")
    return unpacked


def dump_message(message: Message) -> str:
    """A message as a row's body."""
    headers = [[name, _text(value)] for name, value in message.headers]
    fields = [message.topic, _text(message.key), _text(message.value), headers, message.partition]
    return dumps(fields)


def load_message(body: str) -> Message:
    """The message of such a body."""
    topic, key, value, headers, partition = json.loads(body)
    decoded = tuple((name, _bytes(text) or b"") for name, text in headers)
    return Message(topic, _bytes(key), _bytes(value), decoded, partition)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
