"""The locks and transactions that vacuums wait for, and which of them have ended. Pure.

The rule that protects readers: a hold has ended only if it is missing from a poll that began after
the vacuum became known. An earlier poll may have come before the lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegate.events import LockReleased, LockType, VacuumFinished, VacuumFlagged
from tidegate.hive_metastore.values import HeldTables, Transactions

_Place = tuple[str, str | None]
"""A table, and the Metastore, with its state, that assigned the ids of its holds: one that was
restored from a backup gives them out again."""


class Ended(NamedTuple):
    """A hold that has ended on a table. `elsewhere`: its transaction goes on, on other tables."""

    table: str
    location: str
    lock_id: int | None
    transaction_id: int | None
    partition: str | None
    lock_type: LockType | None
    metastore: str | None
    known_transaction: int
    """The highest transaction id in the vacuum."""
    elsewhere: bool = False


class _Hold(NamedTuple):
    location: str
    since: int
    """The number of the latest poll that had begun when the vacuum became known."""
    known_transaction: int
    """The highest transaction id in the vacuum. A Metastore that has not assigned it yet is not the
    vacuum's Metastore."""
    partition: str | None = None
    lock_type: LockType | None = None
    transaction_id: int | None = None


class WaitingHolds:
    """The outstanding holds of all vacuums of one catalog, by table.

    A poll is `begin`, then the calls to the Metastore, then `ended`.
    """

    def __init__(self, catalog: str) -> None:
        """Start empty.

        Args:
            catalog: This Metastore's catalog. Events of other catalogs are ignored, because their
                ids belong to other Metastores.
        """
        self._catalog = catalog.lower()
        self.free_elsewhere = False
        """Whether a transaction that has locked only other tables counts as ended for this table.
        False where readers take no locks, or lock tables one by one: such a reader may lock this
        table later, with the snapshot that it already has."""
        self._polls = 0
        self._locks: dict[int, dict[_Place, _Hold]] = {}
        self._transactions: dict[int, dict[_Place, _Hold]] = {}

    def __len__(self) -> int:
        """The number of outstanding holds; a hold on two tables counts twice."""
        return sum(map(len, self._locks.values())) + sum(map(len, self._transactions.values()))

    def begin(self) -> int:
        """Begin a poll of the Metastore; returns its number."""
        self._polls += 1
        return self._polls

    def vacuum(self, event: VacuumFinished) -> None:
        """Add the holds of a vacuum."""
        if not self._is_ours(event.table):
            return
        place = (event.table, event.metastore)
        named = (*event.open_transactions, event.own_transaction_id or 0)
        known = max(named, default=0)
        for lock in event.locks:
            hold = _Hold(
                event.location,
                self._polls,
                max(known, lock.transaction_id or 0),
                lock.partition,
                lock.lock_type,
                lock.transaction_id,
            )
            self._locks.setdefault(lock.lock_id, {}).setdefault(place, hold)
        for txn in event.open_transactions:
            hold = _Hold(event.location, self._polls, known)
            self._transactions.setdefault(txn, {}).setdefault(place, hold)

    def release(self, event: LockReleased) -> None:
        """Remove a hold whose release is published."""
        for holds, key in (
            (self._locks, event.lock_id),
            (self._transactions, event.transaction_id),
        ):
            places = holds.get(key) if key is not None else None
            if places is not None and key is not None:
                for place in [place for place in places if _ends(event, place)]:
                    del places[place]
                if not places:
                    del holds[key]

    def forgotten(self, event: VacuumFlagged) -> None:
        """Add the holds whose ends the gate may have forgotten.

        If the next poll shows that they have ended, their releases are published again.
        """
        if not self._is_ours(event.table):
            return
        place = (event.table, event.metastore)
        known = max(event.transactions, default=0)
        hold = _Hold(event.location, self._polls, known, event.partition)
        for lock in event.locks:
            self._locks.setdefault(lock, {}).setdefault(place, hold)
        for txn in event.transactions:
            self._transactions.setdefault(txn, {}).setdefault(place, hold)

    def ended(self, poll: int, held: HeldTables, transactions: Transactions) -> list[Ended]:
        """The holds that have ended according to a poll.

        Args:
            poll: The poll's number, from `begin`.
            held: The locks in its answer, which was requested after `begin`.
            transactions: The transactions in its answer, which was requested after the locks.
        """
        found = list(self._ended_locks(poll, held, transactions))
        for txn, places in self._transactions.items():
            is_open = txn in transactions.open
            for (table, metastore), hold in places.items():
                if not _is_covered(hold, poll, transactions):
                    continue
                known = hold.known_transaction
                end = Ended(table, hold.location, None, txn, None, None, metastore, known)
                if not is_open:
                    # a Metastore that has not assigned the id yet can't show its end
                    if txn <= transactions.high_water_mark:
                        found.append(end)
                elif self.free_elsewhere and held.is_elsewhere(txn, *_names(table)):
                    found.append(end._replace(elsewhere=True))
        return found

    def _is_ours(self, table: str) -> bool:
        """Whether a table is of this Metastore's catalog."""
        return table.split(".", 1)[0] == self._catalog

    def _ended_locks(
        self, poll: int, held: HeldTables, transactions: Transactions
    ) -> Iterator[Ended]:
        for lock_id in self._locks.keys() - held.ids:
            for (table, metastore), hold in self._locks[lock_id].items():
                txn = hold.transaction_id
                # the lock of a transaction ends with it, and not before
                if txn is not None and txn in transactions.open:
                    continue
                if _is_covered(hold, poll, transactions):
                    kind = hold.lock_type
                    place = (hold.partition, kind, metastore)
                    known = hold.known_transaction
                    yield Ended(table, hold.location, lock_id, txn, *place, known)


def _ends(event: LockReleased, place: _Place) -> bool:
    table, metastore = place
    return event.table == table and event.metastore in {None, metastore}


def _is_covered(hold: _Hold, poll: int, transactions: Transactions) -> bool:
    """Whether a poll can show the end of a hold."""
    return hold.since < poll and hold.known_transaction <= transactions.high_water_mark


def _names(table: str) -> tuple[str, str]:
    _, database, name = table.split(".")
    return database, name
