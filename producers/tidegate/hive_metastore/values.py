"""The answers of a Metastore, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.events import LockType, VacuumKind
from tidegate.hive import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds

ABORT_CLEAN_UP = 4
"""The type of a queue entry for aborted writes to clean, not for a compaction (since Hive 4.0)."""
READY_FOR_CLEANING = "ready for cleaning"
"""The Metastore's name for the state of a compaction whose result is complete."""


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
class Compaction:
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
    """The Metastore's number of the type: 1 minor, 2 major; others are not compactions."""

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
        return self.next_transaction_id is not None

    @property
    def is_visible(self) -> bool:
        """Whether readers that start now see its result.

        In Hive 4 the state is "ready for cleaning" before the compaction's transaction commits, and
        the commit fills in `next_transaction_id`. Hive 3 has renamed the directories by then.
        """
        if self.state != READY_FOR_CLEANING:
            return False
        return self.transaction_id is None or self.next_transaction_id is not None


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
    compactions: tuple[Compaction, ...]
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
