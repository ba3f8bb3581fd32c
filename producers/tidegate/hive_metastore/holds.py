"""Which locks and transactions hold a table or partition. Pure.

The Metastore's own filters are exact and miss the locks on a whole database or table, so every lock
is matched here. In doubt a lock holds: that delays a cleaning, and never makes one unsafe.
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
"""From so many on, those that a listed transaction ends with are left out: an event may have ten
times as many, but each costs, at every reader."""


@dataclass(frozen=True, slots=True)
class Holds:
    """What a vacuum waits for."""

    locks: tuple[LockHold, ...]
    transactions: tuple[int, ...]


class HeldTables:
    """The locks of one look at a Metastore, by what they are on."""

    def __init__(self, locks: Iterable[Lock]) -> None:
        """Index them once: many vacuums ask."""
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
        """The locks that hold a table (partition None) or a partition of it, each component.

        A lock on the database or on the table holds every partition; a lock on any partition holds
        the table as a whole.
        """
        database, table = database.lower(), table.lower()
        yield from self._by_place.get((database, None), ())
        for each in self._by_place.get((database, table), ()):
            if partition is None or each.partition is None or _same(each.partition, partition):
                yield each

    def is_elsewhere(self, transaction: int, database: str, table: str) -> bool:
        """Whether a transaction has locks, and none on this table, its partitions or its database.

        Where an engine takes all locks of a query in one call, as Hive does, a transaction that has
        locked other tables does not read this one. Where it locks one table after the other, that
        says nothing. One without any lock has not locked yet: it may still be compiling.
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
    """Every lock held on a place and every transaction open, at a moment after a vacuum's commit.

    A lock is listed without its transaction, which is listed by itself: the gate takes a lock for
    ended when the transaction beside it has ended, also where it had ended on this table only.

    Args:
        held: The locks.
        transactions: The transactions, asked for after the locks.
        place: Database, table, and partition or None.
        next_transaction_id: The highest transaction id when the vacuum committed. Whoever opened a
            transaction later sees what the vacuum made, and is not waited for. None: not known
            (Hive 3), so everything that is open is waited for.
    """

    def is_later(transaction: int) -> bool:
        return next_transaction_id is not None and transaction > next_transaction_id

    holding = [
        each
        for each in held.on(*place)
        if each.transaction_id is None or not is_later(each.transaction_id)
    ]
    if len({each.lock_id for each in holding}) >= MANY_LOCKS:
        # those of transactions end with these, which are listed too
        holding = [each for each in holding if each.transaction_id not in transactions.open]
    locks = {lock.lock_id: lock_hold(lock) for lock in holding}
    opened = tuple(sorted(each for each in transactions.open if not is_later(each)))
    return Holds(tuple(locks[key] for key in sorted(locks)), opened)


def lock_hold(lock: Lock) -> LockHold:
    """A lock as a vacuum lists it."""
    return LockHold(
        lock_id=lock.lock_id,
        partition=lock.partition,
        lock_type=lock.kind,
        owner=lock.owner[:1000] if lock.owner else None,
    )


def _same(one: str, other: str) -> bool:
    """Whether two names may be of one partition: engines differ in case and in escapes."""
    return one == other or unquote(one).lower() == unquote(other).lower()
