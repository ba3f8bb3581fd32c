"""A vacuum that waits: its row, its holds, and the one that it watches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from tidegate.coordinator.alarms import SOURCE
from tidegate.coordinator.holds import hashed
from tidegate.coordinator.store import Kind, Store, dumps, loads
from tidegate.coordinator.subject import moment
from tidegate.events import (
    LockReleased,
    OutstandingReader,
    ReleaseReason,
    VacuumFinished,
    VacuumKind,
)

VACUUM: Final = Kind(
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
OVERDUE: Final = Kind("overdue", ("since",), key="id")
"""A waiting vacuum that was reported as overdue."""
ENDED: Final = Kind(
    "ended", ("at", "expired", "metastore"), key="token", indexes=("ended_at on ended (tbl, at)",)
)
"""A lock or transaction that has ended; `expired` is 1 if not because its reader ended it.
`metastore` has hashes of whose id it is; null: of any."""
_WIDE: Final = 1_000
"""Holds from which on they are watched in an order that has nothing to do with their age."""
Token = int
Hold = tuple[Token, ...]
"""The tokens of what ends a hold: any one of them does."""


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
    kind: VacuumKind
    partition: str | None
    directories: tuple[str, ...]
    min_write_id: int
    max_write_id: int
    valid_write_ids: str
    own_transaction_id: int | None

    @classmethod
    def of(cls, event: VacuumFinished) -> _Vacuum:
        """The fields of an event."""
        return cls._make(_copied(event))


_copied: Final = attrgetter(*_Vacuum._fields)
_lock_fields: Final = attrgetter(*Lock._fields)


@dataclass(slots=True)
class WaitingVacuum:
    """A vacuum and all its holds, ended ones too: its row does not change when one ends."""

    table: str
    id: int
    """A hash of what makes it this vacuum, whatever else a publication has."""
    since: int
    """Milliseconds of the broker's time."""
    content: int
    event_id: str
    locks: tuple[Lock, ...]
    transactions: tuple[int, ...]
    vacuum: _Vacuum
    metastore: str | None = None
    """Whose ids its holds are."""

    @classmethod
    def of_event(cls, event: VacuumFinished, now: int) -> WaitingVacuum:
        """The vacuum of an event."""
        made = sorted(event.directories)
        # a Metastore that was restored from a backup gives the same ids to another vacuum
        metastore = "" if event.metastore is None else f"\x1f{event.metastore}"
        identity = hashed(f"{event.partition}\x1f{made}\x1f{event.own_lock_id}{metastore}")
        location, kind, _, _, least, most, valid, own = vacuum = _Vacuum.of(event)
        content = hashed(
            f"{identity}\x1f{location}\x1f{kind}\x1f{least}\x1f{most}\x1f{valid}\x1f{own}"
        )
        locks, transactions = _locks(event), event.open_transactions
        holds = locks, transactions
        name = event.metastore
        return cls(event.table, identity, now, content, event.event_id, *holds, vacuum, name)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> WaitingVacuum:
        """The vacuum of a row: table, id, since, content, body."""
        table, number, since, content, body = row
        event_id, locks, transactions, vacuum, metastore = loads(body)
        vacuum[1], vacuum[3] = VacuumKind(vacuum[1]), tuple(vacuum[3])
        all_locks = tuple(map(Lock._make, locks))
        holds = all_locks, tuple(transactions)
        return cls(table, number, since, content, event_id, *holds, _Vacuum(*vacuum), metastore)

    @property
    def body(self) -> str:
        """Its fields as the row's body."""
        vacuum = self.vacuum._replace(kind=str(self.vacuum.kind))  # type: ignore[arg-type]
        locks = [
            (lock, txn, partition, kind and str(kind), owner)
            for lock, txn, partition, kind, owner in self.locks
        ]
        return dumps([self.event_id, locks, self.transactions, vacuum, self.metastore])

    @property
    def holds(self) -> list[Hold]:
        """Its holds, in the order in which they are watched: the youngest first.

        Of those like it, the youngest will probably end last. Where there are very many, the order
        is mixed: in the order of age, readers that end youngest first would have it compare all of
        its holds for each of them; in this order it is once for each doubling of their number.
        """
        found: list[Hold] = [
            (2 * lock,) if txn is None else (2 * lock, 2 * txn + 1) for lock, txn, *_ in self.locks
        ]
        found += [(2 * txn + 1,) for txn in self.transactions]
        if len(found) > _WIDE:
            found.sort(key=_mixed)
        else:
            found.sort(reverse=True)
        return found

    @property
    def count(self) -> int:
        """How many holds it began with: a lock and its transaction are one."""
        in_locks = {lock.transaction_id for lock in self.locks}
        return len(self.locks) + len(set(self.transactions) - in_locks)

    def about(self, at: datetime) -> dict[str, Any]:
        """The fields that alarms about it share."""
        return {
            "table": self.table,
            "location": self.vacuum.location,
            "occurred_at": at,
            "source": SOURCE,
            "caused_by": self.event_id,
            "partition": self.vacuum.partition,
            "since": moment(self.since),
        }

    def outstanding(self, rows: Store) -> tuple[list[Lock], list[int]]:
        """The locks, and the transactions without a known lock, that have not ended."""
        locks = [
            lock
            for lock in self.locks
            if not has_ended(
                rows,
                self,
                (2 * lock.lock_id, 2 * (lock.transaction_id or 0) + 1)[
                    : 1 + (lock.transaction_id is not None)
                ],
            )
        ]
        in_locks = {lock.transaction_id for lock in locks}
        transactions = [
            txn
            for txn in self.transactions
            if txn not in in_locks and not has_ended(rows, self, (2 * txn + 1,))
        ]
        return locks, transactions

    def outstanding_readers(self, rows: Store) -> Iterator[OutstandingReader]:
        """The same, for people."""
        locks, transactions = self.outstanding(rows)
        for lock in locks:
            kind = None if lock.lock_type is None else str(lock.lock_type)
            yield OutstandingReader.model_validate(lock._replace(lock_type=kind)._asdict())
        # a lock that has ended may still name the owner of a transaction that has not
        owners = {lock.transaction_id: lock.owner for lock in self.locks if lock.owner}
        for txn in transactions:
            yield OutstandingReader(transaction_id=txn, owner=owners.get(txn))


def waiting_vacuums(rows: Store) -> Iterator[WaitingVacuum]:
    """All vacuums that wait, in no particular order."""
    query = "select tbl, id, since, content, body from vacuum"
    return map(WaitingVacuum.of_row, rows.execute(query))


def waiting(rows: Store, query: str, *parameters: Any) -> Iterator[WaitingVacuum]:  # noqa: ANN401 - of SQL
    """The vacuums of a query of their rows: all of them are read before the first is made."""
    return map(WaitingVacuum.of_row, rows.all(query, *parameters))


def overdue_since(rows: Store, vacuum: WaitingVacuum) -> datetime | None:
    """When it was reported as overdue; None: it was not."""
    found = overdue_ms(rows, vacuum)
    return None if found is None else moment(found)


def ended(rows: Store, table: str, token: Token) -> Any:  # noqa: ANN401 - a row
    """Whether what a token names expired, and whose id it is; None: it has not ended."""
    return rows.one(
        "select expired, metastore from ended where tbl = ? and token = ?", table, token
    )


def expired_of(rows: Store, vacuum: WaitingVacuum, token: Token) -> int | None:
    """1 if a hold of a vacuum ended by expiry, 0 if by its reader; None if it has not ended.

    A Metastore that was restored from a backup gives ids out again: an end of before is not one.
    """
    row = ended(rows, vacuum.table, token)
    state = state_of(vacuum.metastore)
    if row is None or not (None in {state, row[1]} or state in row[1].split()):
        return None
    expired: int = row[0]
    return expired


@lru_cache(maxsize=1_000)
def state_of(metastore: str | None) -> str | None:
    """The hash of a Metastore's name and state; None: not known."""
    return None if metastore is None else f"{hashed(metastore):x}"


def tokens_of(event: LockReleased) -> list[Token]:
    """What has ended."""
    lock, transaction = event.lock_id, event.transaction_id
    found = [] if lock is None else [2 * lock]
    return found if transaction is None else [*found, 2 * transaction + 1]


def end(rows: Store, event: LockReleased, token: Token, now: int) -> None:
    """Remember that what a token names has ended, in all states of the Metastore that said so."""
    before, state = ended(rows, event.table, token), state_of(event.metastore)
    expired = int(event.reason is ReleaseReason.EXPIRED)
    if before is not None:
        expired |= before[0]
        known: str | None = before[1]
        if known is None or state is None:
            state = None
        else:
            state = " ".join(sorted({*known.split(), state}))
    rows.put("ended", event.table, token, (now, expired, state))


def has_ended(rows: Store, vacuum: WaitingVacuum, hold: Hold) -> bool:
    """Whether one of the tokens of a vacuum's hold has ended."""
    return any(expired_of(rows, vacuum, token) is not None for token in hold)


def next_hold(rows: Store, vacuum: WaitingVacuum) -> Hold | None:
    """The first hold that has not ended; None: all have."""
    return next((hold for hold in vacuum.holds if not has_ended(rows, vacuum, hold)), None)


def watched(hold: Hold | None) -> tuple[Token | None, Token | None]:
    """The lock and the transaction that a hold ends with."""
    lock = next((token for token in hold or () if not token & 1), None)
    return lock, next((token for token in hold or () if token & 1), None)


def watch(rows: Store, vacuum: WaitingVacuum, hold: Hold | None) -> None:
    """Let a vacuum watch this hold; None: it waits for readers no more."""
    rows.execute(
        "update vacuum set watch_lock = ?, watch_transaction = ? where tbl = ? and id = ?",
        (*watched(hold), vacuum.table, vacuum.id),
    )


def overdue_ms(rows: Store, vacuum: WaitingVacuum) -> int | None:
    """When it was reported as overdue, in ms; None: it was not."""
    found = rows.one("select since from overdue where tbl = ? and id = ?", vacuum.table, vacuum.id)
    return None if found is None else found[0]


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


def _mixed(hold: Hold) -> int:
    """A number by which holds are in an order that has nothing to do with that of their ends."""
    value = hold[0] & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    return value ^ (value >> 31)
