"""Find the locks and transactions that hold a table or partition. Pure.

The Metastore's own filters are exact and miss the locks on a whole database or table, so this
matches every lock. In doubt a lock holds: that may delay a cleaning, but is always safe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from tidegate.events import LockHold
from tidegate.hive_metastore.values import Lock, Transactions

MANY_LOCKS: Final = 10_000
"""From this number on, a vacuum leaves out the locks of transactions that it lists. The limit of an
event is ten times as high, but every lock costs time at every consumer."""


@dataclass(frozen=True, slots=True)
class Holds:
    """The locks and transactions that a vacuum waits for."""

    locks: tuple[LockHold, ...]
    transactions: tuple[int, ...]


class HeldTables:
    """The locks of one poll of a Metastore, indexed by database and table."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        """Index the locks once, for many vacuums."""
        self._by_place: defaultdict[tuple[str, str | None], list[Lock]] = defaultdict(list)
        self._places: defaultdict[int, set[tuple[str, str | None]]] = defaultdict(set)
        self.ids: set[int] = set()
        for lock in locks:
            place = (lock.database.lower(), lock.table.lower() if lock.table else None)
            self._by_place[place].append(lock)
            self.ids.add(lock.lock_id)
            if lock.transaction_id is not None:
                self._places[lock.transaction_id].add(place)

    def on(self, database: str, table: str, partition: str | None) -> Iterator[Lock]:
        """The components of locks that hold a table (partition None) or one of its partitions.

        A lock on the database or on the table holds every partition. A lock on any partition holds
        the table.
        """
        database, table = database.lower(), table.lower()
        yield from self._by_place.get((database, None), ())
        for lock in self._by_place.get((database, table), ()):
            if partition is None or lock.partition is None or _same(lock.partition, partition):
                yield lock

    def is_elsewhere(self, transaction: int, database: str, table: str) -> bool:
        """Whether a transaction has locks, but only outside this table and its database.

        If an engine takes all locks of a query in one call, as Hive does, such a transaction does
        not read this table. If it locks tables one by one, the transaction may lock this table
        later. A transaction without locks counts as not elsewhere: its query may still be
        compiling.
        """
        places = self._places.get(transaction)
        if not places:
            return False
        database = database.lower()
        return not places & {(database, None), (database, table.lower())}


def holds_of(
    held: HeldTables,
    transactions: Transactions,
    place: tuple[str, str, str | None],
    next_transaction_id: int | None,
) -> Holds:
    """All locks on a place and all open transactions, at a time after a vacuum's commit.

    A lock is listed without its transaction, which is listed separately. Otherwise the gate would
    take the lock for ended with its transaction, even where that ended on this table only.

    Args:
        held: The locks.
        transactions: The transactions, requested after the locks.
        place: Database, table, and partition or None.
        next_transaction_id: The highest transaction id when the vacuum committed. Later
            transactions see the vacuum's result, and are left out. None (Hive 3): unknown, so all
            open transactions are listed.
    """

    def is_later(transaction: int) -> bool:
        return next_transaction_id is not None and transaction > next_transaction_id

    holding = [
        lock
        for lock in held.on(*place)
        if lock.transaction_id is None or not is_later(lock.transaction_id)
    ]
    if len({lock.lock_id for lock in holding}) >= MANY_LOCKS:
        # these locks end with their transactions, which are listed too
        holding = [lock for lock in holding if lock.transaction_id not in transactions.open]
    locks = {lock.lock_id: lock_hold(lock) for lock in holding}
    opened = tuple(sorted(txn for txn in transactions.open if not is_later(txn)))
    return Holds(tuple(locks[key] for key in sorted(locks)), opened)


def lock_hold(lock: Lock) -> LockHold:
    """Convert a lock to the form in a vacuum's event."""
    return LockHold(
        lock_id=lock.lock_id,
        partition=lock.partition,
        lock_type=lock.kind,
        owner=lock.owner[:1000] if lock.owner else None,
    )


def _same(one: str, other: str) -> bool:
    """Whether two names may mean one partition. Engines differ in case and in escapes."""
    return one == other or unquote(one).lower() == unquote(other).lower()
