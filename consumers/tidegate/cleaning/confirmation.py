"""Whether a Metastore confirms a cleaning: a second source, which the event's writer does not own.

Pure. What is compared: the event, the directories that would go, and the Metastore's answers.
`second_source` makes the calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final

from tidegate.cleaning.plan import Cleaning, CleaningPlan, snapshot_of
from tidegate.cleaning.products import AcidEntry
from tidegate.events import AbortedCleaningReleased, CleaningReleased
from tidegate.events.reasons import Reason
from tidegate.hive.write_ids import IdRanges, ValidWriteIds
from tidegate.hive_metastore.values import HeldTables, QueueEntry, Transactions
from tidegate.tables.refusal import Refused


class Proof(Enum):
    """How far a second source vouches for a cleaning that it does not contradict."""

    CONFIRMED = "confirmed"
    """It agrees with the event."""
    UNPROVEN = "unproven"
    """It does not contradict, and can't prove it."""
    BELIEVED = "believed"
    """No source is asked, by the settings."""


NOT_NOW: Final = frozenset({Reason.NOT_CONFIRMED, Reason.SECOND_SOURCE_AWAY})
"""Why a vacuum's cleaning is deferred: the second source contradicts it, or is away."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What its event and the names in the directory say about a removal."""

    database: str
    table: str
    location: str
    """The table's, as the directories were found in it."""
    partition: str | None
    own: int | None
    """The compaction's transaction."""
    transactions: frozenset[int]
    """That one, and those in the names of the products."""
    products: tuple[AcidEntry, ...]
    removed: tuple[AcidEntry, ...]
    aborted: IdRanges
    """Write ids that the event calls aborted."""
    last_transaction: int | None = None
    last_lock: int | None = None
    """The highest transaction and lock that the vacuum waited for; None: not known."""
    waits_for_readers: bool = True
    """False for aborted writes: no reader reads them."""

    @classmethod
    def of(cls, command: Cleaning, plan: CleaningPlan) -> Removal:
        """The removal by a command and its plan, which is not empty.

        Raises:
            Refused: the command's snapshot can't be read.
        """
        _, database, table = command.table.split(".")
        products = tuple(map(AcidEntry.parse, plan.products))
        named = {product.acid.visibility_txn for product in products}
        where = plan.remove[0].parent
        own = last_transaction = last_lock = None
        if isinstance(command, CleaningReleased):
            own = command.own_transaction_id
            last_transaction, last_lock = command.last_transaction_id, command.last_lock_id
        return cls(
            database,
            table,
            where.removesuffix(f"/{command.partition}") if command.partition else where,
            command.partition,
            max((txn for txn in named if txn is not None), default=None) if own is None else own,
            frozenset(txn for txn in (own, *named) if txn is not None),
            products,
            tuple(map(AcidEntry.parse, plan.remove)),
            snapshot_of(command).aborted,
            last_transaction,
            last_lock,
            not isinstance(command, AbortedCleaningReleased),
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """A Metastore's answers about a removal; the locks were asked for before the transactions."""

    location: str | None
    """The table's, normalised; None: there is no such table."""
    partition_location: str | None
    """The partition's, normalised; None: there is no such partition, or none was asked for."""
    compactions: tuple[QueueEntry, ...]
    """Of the table, or of more."""
    held: HeldTables
    transactions: Transactions
    write_ids: ValidWriteIds
    """Of the table, for who has these transactions."""
    readers_lock_at_once: bool = False


def judge(removal: Removal, said: Answers) -> Proof:
    """Compare a removal with a Metastore's answers.

    Raises:
        Refused: NOT_CONFIRMED, with their first contradiction.
    """
    row = _row(removal, said.compactions)
    contradictions = chain(
        _of_place(removal, said),
        _of_commit(removal, said.transactions, row),
        _of_readers(removal, said, row),
        _of_write_ids(removal, said.write_ids, row),
    )
    for contradiction in contradictions:
        raise contradiction
    # a transaction that was forgotten and one that committed look the same: only the row tells
    is_proven = not removal.waits_for_readers or _proves(removal, said, row)
    return Proof.CONFIRMED if is_proven else Proof.UNPROVEN


def _of_place(removal: Removal, said: Answers) -> Iterator[Refused]:
    name = f"{removal.database}.{removal.table}"
    if said.location != removal.location:  # renamed, moved, dropped, or another table's name
        found = f"has it in {said.location}" if said.location else "has no such table"
        yield _no(f"{name} is in {removal.location}", found)
    expected = f"{removal.location}/{removal.partition}" if removal.partition else None
    if said.partition_location != expected:  # dropped meanwhile, or moved
        found = f"has it in {said.partition_location}"
        yield _no(f"a partition of {name} is in {expected}", found)


def _of_commit(
    removal: Removal, transactions: Transactions, row: QueueEntry | None
) -> Iterator[Refused]:
    for txn in sorted(removal.transactions):
        if txn > transactions.high_water_mark:  # restored from a backup, or invented
            yield _no(f"transaction {txn} committed", "has not given that id out")
        if txn in transactions.open:  # published too early
            yield _no(f"transaction {txn} committed", "has it as open")
        if txn in transactions.aborted:  # its worker died
            yield _no(f"transaction {txn} committed", "has it as aborted")
    # one that made nothing found what an earlier one had made; its readers are those of both
    for txn in sorted(removal.transactions):
        if removal.own is not None and txn > removal.own:
            yield _no(f"transaction {removal.own} found it all", f"has given {txn} out later")
    if row is not None and not row.has_committed:  # its worker died before the commit
        yield _no("the compaction committed", f"has it as {row.state!r}, and not committed")


def _of_readers(removal: Removal, said: Answers, row: QueueEntry | None) -> Iterator[Refused]:
    if removal.waits_for_readers:  # earlier readers may read what is obsolete
        for txn in _open_readers(removal, said, row):
            yield _no("every reader has ended", f"has transaction {txn} as open")
        for lock in _held_locks(removal, said, row):
            yield _no("every reader has ended", f"has lock {lock} as held")


def _of_write_ids(
    removal: Removal, ids: ValidWriteIds, row: QueueEntry | None
) -> Iterator[Refused]:
    for entry in (*removal.products, *removal.removed):
        if entry.acid.max_write_id > ids.high_water_mark:  # created again since, or another table
            last = f"has given out no write id of the table above {ids.high_water_mark}"
            yield _no(f"{entry.name} was written", last)
        if ids.opens_in(*entry.acid.written_by):  # an unfinished write under this name
            yield _no(f"the writes of {entry.name} have ended", "has one of them as open")
    for product in removal.products:
        last_id = product.acid.max_write_id
        if product.is_overwrite and last_id in ids.aborted:  # no reader reads its rows
            yield _no(f"the write of {product.name} committed", "has it as aborted")
        if row is not None and last_id > row.highest_write_id:  # written after it
            last = f"has {row.highest_write_id} as the compaction's last write id"
            yield _no(f"{product.name} is part of the compaction", last)
    for entry in removal.removed:
        for low, high in _within(removal.aborted, entry):
            if ids.aborted.count_in(low, high) <= high - low:  # rows that readers read
                yield _no(f"the write ids {low} to {high} aborted", "has them as committed")


def _no(event_says: str, metastore: str) -> Refused:
    message = f"the event says {event_says}; the Metastore {metastore}"
    return Refused(Reason.NOT_CONFIRMED, message)


def _row(removal: Removal, compactions: Iterable[QueueEntry]) -> QueueEntry | None:
    """The queue's row of the compaction. Hive 3's names no transaction, and proves nothing."""
    place = (removal.database, removal.table, removal.partition)
    for compaction in compactions:
        if compaction.place == place and removal.own == compaction.transaction_id is not None:
            return compaction
    return None


def _proves(removal: Removal, said: Answers, row: QueueEntry | None) -> bool:
    """Whether committed compactions made the products, or overwrites that it found committed.

    A rebalance's row does not have the last transaction that may read what it replaced.
    """
    made = {entry.transaction_id for entry in said.compactions if entry.has_committed}
    has_last = row is not None and row.next_transaction_id is not None
    return has_last and all(
        product.is_overwrite or product.acid.visibility_txn in made - {None}
        for product in removal.products
    )


def _open_readers(removal: Removal, said: Answers, row: QueueEntry | None) -> Iterator[int]:
    """Transactions that are open and began before the compaction committed.

    Without its row the event says which: more than those of the event only wait in vain.
    """
    if row is not None and row.next_transaction_id is not None:
        last = row.next_transaction_id
    elif removal.last_transaction is not None:
        last = max((removal.last_transaction, *removal.transactions))
    else:
        last = said.transactions.high_water_mark
    for txn in sorted(said.transactions.open):
        elsewhere = said.held.is_elsewhere(txn, removal.database, removal.table)
        if txn <= last and not (said.readers_lock_at_once and elsewhere):
            yield txn


def _held_locks(removal: Removal, said: Answers, row: QueueEntry | None) -> Iterator[int]:
    """Locks without a transaction on the place that were there when the compaction committed.

    Both times are by the clock of the Metastore's database.
    """
    committed = 0 if row is None else row.committed_ms
    for lock in said.held.on(removal.database, removal.table, removal.partition):
        if lock.transaction_id is not None:
            continue
        if committed:
            is_later = lock.acquired_ms > committed
        else:
            is_later = removal.last_lock is not None and lock.lock_id > removal.last_lock
        if not is_later:
            yield lock.lock_id


def _within(ids: IdRanges, entry: AcidEntry) -> Iterator[tuple[int, int]]:
    """The ranges of ids that lie in a directory, cut to it."""
    low, high = entry.acid.written_by
    for first, last in ids:
        if first <= high and last >= low:
            yield max(first, low), min(last, high)
