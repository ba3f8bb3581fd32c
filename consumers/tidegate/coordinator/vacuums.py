"""A vacuum that waits: its row, its readers, and the one that it watches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import starmap
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tidegate.coordinator.memory import Reader, Token, end_of, is_transaction, reader_of
from tidegate.coordinator.rows.records import dumps, hashed, loads
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import SOURCE
from tidegate.events import CleaningReleased, OutstandingReader, VacuumFinished
from tidegate.events.fields import from_ms

VACUUM: Final = RowType(
    "vacuum",
    ("since", "content"),
    key="id",
    has_body=True,
    derived=("watch_lock", "watch_transaction", "due"),
    indexes=(
        "vacuum_lock on vacuum (tbl, watch_lock) where watch_lock is not null",
        "vacuum_transaction on vacuum (tbl, watch_transaction) where watch_transaction is not null",
        "vacuum_ready on vacuum (tbl) where watch_lock is null and watch_transaction is null",
        "vacuum_due on vacuum (due) where due is not null",
    ),
)
"""A vacuum that waits; `content` is a hash by which a corrected publication is recognised."""
OVERDUE: Final = RowType("overdue", ("reported",), key="id")
"""A waiting vacuum that was reported as overdue, and when."""
SELECT_VACUUMS: Final = (
    "select tbl, id, since, content, body, (select reported from overdue"
    " where overdue.tbl = vacuum.tbl and overdue.id = vacuum.id) from vacuum"
)
_WATCHING: Final = (
    f"{SELECT_VACUUMS} indexed by vacuum_lock where tbl = ? and watch_lock = ?",
    f"{SELECT_VACUUMS} indexed by vacuum_transaction where tbl = ? and watch_transaction = ?",
)
"""The vacuums that watch a lock; a transaction."""
_WIDE: Final = 1_000
"""With more readers than these, the order in which they are watched is pseudo-random."""


class Lock(NamedTuple):
    """A lock that a vacuum waits for, with what people want to know of it."""

    lock_id: int
    transaction_id: int | None = None
    partition: str | None = None
    lock_type: str | None = None
    owner: str | None = None


class _Vacuum(NamedTuple):
    """The fields of a vacuum that its CleaningReleased repeats."""

    location: str
    kind: str
    partition: str | None
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None


_vacuum_fields: Final = attrgetter(*_Vacuum._fields)
_lock_fields: Final = attrgetter(*Lock._fields)
_lock_id: Final = attrgetter("lock_id")
_lock_ids: Final = attrgetter("lock_id", "transaction_id")


@dataclass(slots=True)
class WaitingVacuum:
    """A vacuum and all its readers, ended ones too: its row does not change when one ends."""

    table: str
    id: int
    """A hash of what identifies it: partition, products, own lock and Metastore."""
    since: int
    """Milliseconds of the broker's time."""
    content: int
    event_id: str
    locks: tuple[Lock, ...]
    transactions: tuple[int, ...]
    fields: _Vacuum
    metastore: str | None = None
    """The Metastore that assigned the ids of its readers."""
    overdue_since: int | None = None
    """When it was reported as overdue, in ms; None if it was not."""

    @classmethod
    def of_event(cls, event: VacuumFinished, since: int) -> WaitingVacuum:
        """The vacuum of an event."""
        made = sorted(event.directories)
        # a Metastore that was restored from a backup gives the same ids to another vacuum
        metastore = "" if event.metastore is None else f"\x1f{event.metastore}"
        identity = hashed(f"{event.partition}\x1f{made}\x1f{event.own_lock_id}{metastore}")
        vacuum = _Vacuum._make(_vacuum_fields(event))
        content = hashed(
            f"{identity}\x1f{vacuum.location}\x1f{vacuum.kind}\x1f{vacuum.min_write_id}"
            f"\x1f{vacuum.max_write_id}\x1f{vacuum.valid_write_ids}\x1f{vacuum.own_transaction_id}"
        )
        readers = _locks(event), event.open_transactions
        return cls(
            event.table, identity, since, content, event.event_id, *readers, vacuum, event.metastore
        )

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> WaitingVacuum:
        """The vacuum of a row of SELECT_VACUUMS."""
        table, number, since, content, body, overdue_since = row
        event_id, locks, transactions, fields, metastore = loads(body)
        vacuum = _Vacuum._make(fields)
        vacuum = vacuum._replace(directories=tuple(vacuum.directories))
        readers = tuple(map(Lock._make, locks)), tuple(transactions)
        return cls(
            table, number, since, content, event_id, *readers, vacuum, metastore, overdue_since
        )

    def merge(self, before: WaitingVacuum) -> None:
        """Let it wait for the readers of an earlier publication, too.

        A writer and a bridge may have seen different ones. With the same content the earlier
        publication counts.
        """
        locks = {lock.lock_id: lock for lock in before.locks}
        for lock in self.locks:
            if lock.lock_id not in locks or locks[lock.lock_id].transaction_id is None:
                locks[lock.lock_id] = lock
        self.locks, self.since = tuple(locks.values()), before.since
        self.transactions = tuple(dict.fromkeys((*before.transactions, *self.transactions)))
        if self.content == before.content:
            self.event_id, self.fields = before.event_id, before.fields
            self.overdue_since = before.overdue_since

    @property
    def body(self) -> str:
        """Its fields as the row's body."""
        readers = self.locks, self.transactions
        return dumps([self.event_id, *readers, self.fields, self.metastore])

    @property
    def readers(self) -> list[Reader]:
        """Its readers, in the order in which they are watched.

        The youngest come first: they tend to end last. Of more than 1,000, the order is
        pseudo-random: if the youngest ended first, each end would scan the complete list.
        """
        found = [*starmap(reader_of, map(_lock_ids, self.locks))]
        found += map(partial(reader_of, None), self.transactions)
        if len(found) > _WIDE:
            found.sort(key=_mixed)
        else:
            found.sort(reverse=True)
        return found

    @property
    def reader_count(self) -> int:
        """The number of its readers, ended ones too: a lock and its transaction are one."""
        in_locks = {lock.transaction_id for lock in self.locks}
        return len(self.locks) + len(set(self.transactions) - in_locks)

    def about(self, at: datetime) -> dict[str, Any]:
        """The fields that alarms about it share."""
        return {
            "table": self.table,
            "location": self.fields.location,
            "occurred_at": at,
            "source": SOURCE,
            "caused_by": self.event_id,
            "partition": self.fields.partition,
            "since": from_ms(self.since),
        }

    def command(self, at: datetime, *, after_expiry: bool = False) -> CleaningReleased:
        """Its command, with an id that derives from it alone, not from its last reader."""
        return CleaningReleased(
            table=self.table,
            occurred_at=at,
            source=SOURCE,
            caused_by=self.event_id,
            after_expiry=after_expiry,
            last_lock_id=max(map(_lock_id, self.locks), default=None),
            last_transaction_id=max(self.transactions, default=None),
            **self.fields._asdict(),
        )

    def outstanding(self, rows: Store) -> tuple[list[Lock], list[int]]:
        """The locks, and the transactions without a known lock, that have not ended."""
        locks = [lock for lock in self.locks if end_of(rows, self, reader_of(*lock[:2])) is None]
        in_locks = {lock.transaction_id for lock in locks}
        transactions = [
            txn
            for txn in self.transactions
            if txn not in in_locks and end_of(rows, self, reader_of(None, txn)) is None
        ]
        return locks, transactions

    def outstanding_readers(self, rows: Store) -> Iterator[OutstandingReader]:
        """The readers that have not ended, as events show them."""
        locks, transactions = self.outstanding(rows)
        for lock in locks:
            yield OutstandingReader.model_validate(lock._asdict())
        # a lock that has ended may still name the owner of a transaction that has not
        owners = {lock.transaction_id: lock.owner for lock in self.locks if lock.owner}
        for txn in transactions:
            yield OutstandingReader(transaction_id=txn, owner=owners.get(txn))


def waiting_vacuums(rows: Store) -> Iterator[WaitingVacuum]:
    """All vacuums that wait, in no particular order."""
    return map(WaitingVacuum.of_row, rows.execute(SELECT_VACUUMS))


def waiting(rows: Store, query: str, *parameters: Any) -> Iterator[WaitingVacuum]:  # noqa: ANN401 - of SQL
    """The vacuums of a query. It is read to the end first, so the caller may change the rows."""
    return map(WaitingVacuum.of_row, rows.all(query, *parameters))


def watching(rows: Store, table: str, token: Token) -> Iterator[WaitingVacuum]:
    """The vacuums of a table that watch what a token names."""
    found = rows.all(_WATCHING[is_transaction(token)], table, token)
    return map(WaitingVacuum.of_row, found)


def listed(rows: Store, table: str) -> set[Token]:
    """What the readers of the table's waiting vacuums end with."""
    found = waiting(rows, f"{SELECT_VACUUMS} where tbl = ?", table)
    return {token for vacuum in found for reader in vacuum.readers for token in reader}


def watched(reader: Reader | None) -> tuple[Token | None, Token | None]:
    """The lock and the transaction that a reader ends with."""
    found = {is_transaction(token): token for token in reader or ()}
    return found.get(False), found.get(True)


def watch(rows: Store, vacuum: WaitingVacuum, reader: Reader | None) -> None:
    """Let a vacuum watch this reader; None if it waits for no reader any more."""
    rows.execute(
        "update vacuum set watch_lock = ?, watch_transaction = ? where tbl = ? and id = ?",
        (*watched(reader), vacuum.table, vacuum.id),
    )


def _locks(event: VacuumFinished) -> tuple[Lock, ...]:
    own, own_txn = event.own_lock_id, event.own_transaction_id
    locks = [Lock(*_lock_fields(lock)) for lock in event.locks]
    if own_txn is not None:  # the vacuum's own lock ends with its transaction
        locks = [
            lock._replace(transaction_id=own_txn)
            if lock.lock_id == own and lock.transaction_id is None
            else lock
            for lock in locks
        ]
    return tuple(locks)


def _mixed(reader: Reader) -> int:
    """A key for a pseudo-random order, the same at each call."""
    value = reader[0] & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    return value ^ (value >> 31)
