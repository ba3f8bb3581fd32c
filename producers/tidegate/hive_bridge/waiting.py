"""What waits for which lock and transaction, and which of them have ended. Pure.

The rule that protects readers: a hold has ended only if a look at the Metastore does not show it
that began after the vacuum was known. In an earlier look the lock may not have been there yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegate.events import LockReleased, LockType, VacuumFinished, VacuumFlagged
from tidegate.hive_metastore.holds import HeldTables
from tidegate.hive_metastore.values import Transactions


class Ended(NamedTuple):
    """A hold that has ended on a table. `elsewhere`: it goes on, with other tables locked."""

    table: str
    location: str
    lock_id: int | None
    transaction_id: int | None
    partition: str | None
    lock_type: LockType | None
    elsewhere: bool = False


class _Hold(NamedTuple):
    location: str
    since: int
    """The look that was the latest to have begun when the vacuum became known."""
    known_transaction: int
    """The highest transaction id that its vacuum names: a Metastore that has not given it out yet
    is not the one that the vacuum is of."""
    partition: str | None = None
    lock_type: LockType | None = None
    transaction_id: int | None = None


class WaitingHolds:
    """The holds of all vacuums of one catalog that are not known to have ended, by table.

    Each look at the Metastore is `begin`, then the calls, then `ended`.
    """

    def __init__(self, catalog: str, *, free_elsewhere: bool) -> None:
        """Begin with nothing.

        Args:
            catalog: The catalog whose tables this Metastore has. Ids of other Metastores mean
                something else.
            free_elsewhere: Whether a transaction that has locked other tables only has ended for
                this table. It is wrong where readers take no locks, or lock one table after the
                other: such a reader may lock this table later, with the snapshot that it has.
        """
        self._catalog = catalog.lower()
        self._free_elsewhere = free_elsewhere
        self._looks = 0
        self._locks: dict[int, dict[str, _Hold]] = {}
        self._transactions: dict[int, dict[str, _Hold]] = {}

    def __len__(self) -> int:
        """How many holds are waited for, each counted for each table."""
        return sum(map(len, self._locks.values())) + sum(map(len, self._transactions.values()))

    def begin(self) -> int:
        """A look at the Metastore begins; its number."""
        self._looks += 1
        return self._looks

    def vacuum(self, event: VacuumFinished) -> None:
        """A vacuum is known: all its holds are waited for."""
        if not self._is_ours(event.table):
            return
        named = (*event.open_transactions, event.own_transaction_id or 0)
        known = max(named, default=0)
        for lock in event.locks:
            hold = _Hold(
                event.location,
                self._looks,
                max(known, lock.transaction_id or 0),
                lock.partition,
                lock.lock_type,
                lock.transaction_id,
            )
            self._locks.setdefault(lock.lock_id, {}).setdefault(event.table, hold)
        for txn in event.open_transactions:
            hold = _Hold(event.location, self._looks, known)
            self._transactions.setdefault(txn, {}).setdefault(event.table, hold)

    def release(self, event: LockReleased) -> None:
        """A release is published: it is not waited for any more."""
        for holds, key in (
            (self._locks, event.lock_id),
            (self._transactions, event.transaction_id),
        ):
            tables = holds.get(key) if key is not None else None
            if tables is not None and key is not None:
                tables.pop(event.table, None)
                if not tables:
                    del holds[key]

    def forgotten(self, event: VacuumFlagged) -> None:
        """The gate may have forgotten that these ended: they are waited for again.

        So a look at the Metastore tells whether they have ended, and that is published again.
        """
        if not self._is_ours(event.table):
            return
        known = max(event.transactions, default=0)
        hold = _Hold(event.location, self._looks, known, event.partition)
        for lock in event.locks:
            self._locks.setdefault(lock, {}).setdefault(event.table, hold)
        for txn in event.transactions:
            self._transactions.setdefault(txn, {}).setdefault(event.table, hold)

    def ended(self, look: int, held: HeldTables, transactions: Transactions) -> list[Ended]:
        """The holds that have ended, as a look shows whose calls were made after its `begin`.

        Args:
            look: Its number.
            held: The locks that it found.
            transactions: The transactions that it found, asked for after the locks.
        """
        found = list(self._ended_locks(look, held, transactions))
        for txn, tables in self._transactions.items():
            is_open = txn in transactions.open
            for table, hold in tables.items():
                if not _is_covered(hold, look, transactions):
                    continue
                if not is_open:
                    # a Metastore that has not given out the id yet knows nothing of its end
                    if txn <= transactions.high_water_mark:
                        found.append(Ended(table, hold.location, None, txn, None, None))
                elif self._free_elsewhere and held.is_elsewhere(txn, *_names(table)):
                    found.append(Ended(table, hold.location, None, txn, None, None, elsewhere=True))
        return found

    def _is_ours(self, table: str) -> bool:
        """Whether a table is of this Metastore's catalog."""
        return table.split(".", 1)[0] == self._catalog

    def _ended_locks(
        self, look: int, held: HeldTables, transactions: Transactions
    ) -> Iterator[Ended]:
        for lock_id in self._locks.keys() - held.ids:
            for table, hold in self._locks[lock_id].items():
                txn = hold.transaction_id
                # the lock of a transaction goes with it, and not before
                if txn is not None and txn in transactions.open:
                    continue
                if _is_covered(hold, look, transactions):
                    yield Ended(table, hold.location, lock_id, txn, hold.partition, hold.lock_type)


def _is_covered(hold: _Hold, look: int, transactions: Transactions) -> bool:
    """Whether a look can say anything about a hold."""
    return hold.since < look and hold.known_transaction <= transactions.high_water_mark


def _names(table: str) -> tuple[str, str]:
    _, database, name = table.split(".")
    return database, name
