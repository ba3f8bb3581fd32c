"""The answers of a Metastore as values, and the locks that hold a table or partition. Pure.

The Metastore's own filters are exact and miss the locks on a whole database or table, so
`HeldTables` matches every lock. In doubt a lock holds: that may delay a cleaning, but is always
safe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import unquote

from tidegate.events import LockHold, LockType, VacuumKind
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds

ABORT_CLEAN_UP = 4
"""The type of a queue entry for aborted writes to clean, not for a compaction (since Hive 4.0)."""
REBALANCE = 3
"""The type of a rebalance: a major compaction that gives the rows new keys (since Hive 4.0)."""
WORKING = "working"
"""The Metastore's name for the state of a compaction that a Worker has taken."""
READY_FOR_CLEANING = "ready for cleaning"
"""The Metastore's name for the state of a compaction whose result is complete."""
MANY_LOCKS: Final = 10_000
"""From this number on, a vacuum leaves out the locks of transactions that it lists. The limit of an
event is ten times as high, but every lock costs time at every consumer."""


class Lock(NamedTuple):
    """A component of a lock, held or requested. All components of one lock share its id.

    A tuple, because one poll creates thousands. `table` None: the whole database; `partition` None:
    the whole table. `heartbeat_ms` is by the clock of the Metastore's database, and 0 for a lock of
    a transaction, which has the heartbeat instead.
    """

    lock_id: int
    database: str
    table: str | None = None
    partition: str | None = None
    kind: LockType | None = None
    transaction_id: int | None = None
    heartbeat_ms: int = 0
    owner: str | None = None
    acquired_ms: int = 0
    """When it was acquired, by the same clock; 0: it is waited for."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """The open transactions with their last heartbeats (0: unknown), and the aborted ones."""

    high_water_mark: int
    open: Mapping[int, int] = field(default_factory=dict)
    aborted: frozenset[int] = frozenset()

    def valid(self) -> ValidTxns:
        """The snapshot of a reader that begins now."""
        # a pending open may have an id above the mark, which no reader sees
        opened = IdRanges.of(*(txn for txn in self.open if txn <= self.high_water_mark))
        aborted = IdRanges.of(*self.aborted)
        return ValidTxns(
            self.high_water_mark, min(self.open, default=NOTHING_OPEN), opened, aborted
        )


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of the Metastore's queue of compactions.

    `next_transaction_id` is the highest id that was assigned when the compaction committed, its own
    included. Hive 3 reports neither that nor the compaction's transaction (None), and no
    `highest_write_id` (0), which has to be found in the directory.
    """

    compaction_id: int
    database: str
    table: str
    partition: str | None
    kind: VacuumKind | None
    state: str
    highest_write_id: int
    transaction_id: int | None = None
    next_transaction_id: int | None = None
    committed_ms: int = 0
    """When it committed, by the clock of the Metastore's database; 0: unknown."""
    type: int = 0
    """The Metastore's number of the type: 1 to 3 are minor, major and rebalance; others do not
    compact."""
    committed: bool = False
    """Of a rebalance: whether its transaction committed. The queue does not say."""

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Database, table and partition."""
        return self.database, self.table, self.partition

    @property
    def is_of_hive_3(self) -> bool:
        """Whether the Metastore does not report the compacted write ids, as in Hive 3."""
        return self.transaction_id is None and not self.highest_write_id

    @property
    def has_committed(self) -> bool:
        """Whether its transaction has committed, whatever became of it since. Not of Hive 3."""
        return self.committed or self.next_transaction_id is not None

    @property
    def is_doubtful(self) -> bool:
        """Whether only its transaction can tell if it has committed.

        A rebalance's commit fills in no `next_transaction_id` (Hive 4.0.1). Its abort is never
        forgotten while the table exists: its exclusive lock leaves a row without a write id.
        """
        is_rebalance = self.type == REBALANCE and self.transaction_id is not None
        return is_rebalance and self.next_transaction_id is None

    def seen_with(self, transactions: Transactions) -> QueueEntry:
        """Fill in `committed` from a list that was requested after the queue."""
        if not self.is_doubtful or self.transaction_id is None:
            return self
        return replace(self, committed=transactions.valid().is_valid(self.transaction_id))

    @property
    def is_visible(self) -> bool:
        """Whether readers that start now see its result.

        In Hive 4 the state is "ready for cleaning" before the compaction's transaction commits.
        Hive 3 has renamed the directories by then.
        """
        if self.state != READY_FOR_CLEANING:
            return False
        return self.transaction_id is None or self.has_committed


@dataclass(frozen=True, slots=True)
class Table:
    """The Metastore's description of a table or partition."""

    database: str
    name: str
    location: str
    parameters: Mapping[str, str]

    @property
    def is_acid(self) -> bool:
        """Whether it is transactional, in Hive's sense."""
        return self.parameters.get("transactional", "").lower() == "true"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One poll of a Metastore. The calls are made in the order of the fields, which matters.

    The compactions come first, so the locks and transactions include every reader that may need the
    directories that a visible compaction replaced. The locks come before the transactions, so the
    open transactions include those of all locks that are still held.
    """

    metastore: str
    """The UUID of its database."""
    compactions: tuple[QueueEntry, ...]
    locks: tuple[Lock, ...]
    transactions: Transactions


def write_ids_of_compaction(answer: ValidWriteIds, highest: int) -> ValidWriteIds:
    """The snapshot of a compaction up to `highest`, from what is valid now.

    A compaction takes no id that is open, so the state of every id up to its highest one is final:
    the list may be asked for at any time after it. An id that is open all the same stays open in
    the list, and then the cleaner keeps its directories.
    """
    opened = _up_to(answer.open, highest)
    return ValidWriteIds(
        answer.table,
        highest,
        opened.firsts[0] if opened.firsts else NOTHING_OPEN,
        opened,
        _up_to(answer.aborted, highest),
    )


def final_write_ids(answer: ValidWriteIds) -> ValidWriteIds:
    """A table's write ids up to the last that aborted before all that are open.

    None of it changes any more, and it is the same until another write aborts.
    """
    final = write_ids_of_compaction(answer, min(answer.high_water_mark, answer.min_open - 1))
    last = final.aborted.lasts[-1] if final.aborted.lasts else 0
    return write_ids_of_compaction(final, last)


def _up_to(ids: IdRanges, highest: int) -> IdRanges:
    kept = [(low, min(high, highest)) for low, high in ids if low <= highest]
    return IdRanges(tuple(low for low, _ in kept), tuple(high for _, high in kept))


Holds = tuple[tuple[LockHold, ...], tuple[int, ...]]
"""The locks and the transactions that a vacuum waits for."""


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
    return tuple(locks[key] for key in sorted(locks)), opened


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
