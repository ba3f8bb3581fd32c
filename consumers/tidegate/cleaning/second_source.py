"""The second source of a removal: asked by the cleaner at the moment of acting.

The events are the first. Directories go on the word of both, never of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidegate.cleaning.confirmation import Answers, Proof, Removal, judge
from tidegate.cleaning.plan import Cleaning, CleaningPlan, check_complete, snapshot_of
from tidegate.cleaning.products import AcidEntry, rows_needed
from tidegate.errors import (
    FormatError,
    MetastoreRefusedError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.events import AbortedCleaningReleased
from tidegate.events.reasons import Reason
from tidegate.hive.orc import LONGEST_END, read_orc_end
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.hive_metastore.values import HeldTables
from tidegate.storage import NotFound, ParallelMap, Storage, join, normalise
from tidegate.tables.refusal import Refused


class SecondSource:
    """Says whether what an event claims is so. Thread-safe.

    Asks a Hive Metastore about the tables of its catalog, on a connection of its own, in six calls
    at most; a seventh if there was a rebalance. About other tables, and without a Metastore,
    nothing is asked. Then what goes has to go into quarantine, where it can be put back, unless the
    settings say that events are believed.
    """

    def __init__(
        self,
        metastore: MetastoreSettings | None = None,
        *,
        believed: bool = False,
        readers_lock_at_once: bool = False,
    ) -> None:
        """Take the Metastore; nothing is connected yet.

        Args:
            metastore: Where it is, and its catalog.
            believed: Whether events are believed where no Metastore is asked.
            readers_lock_at_once: As the bridge's setting: then a transaction that has locked other
                tables only does not count as a reader.
        """
        self._metastore, self._believed = metastore, believed
        self._at_once = readers_lock_at_once
        self._is_checked = not readers_lock_at_once

    def confirm(self, command: Cleaning, plan: CleaningPlan) -> Proof:
        """Ask about a plan that removes something.

        Raises:
            Refused: the source contradicts the event; or rows of aborted writes would go, which
                can't be put back, and nothing can be asked; or the command can't be read.
            TransientError: the source did not answer.
        """
        if (metastore := self._metastore_of(command)) is not None:
            removal = Removal.of(command, plan)
            with MetastoreClient(metastore) as client:
                return judge(removal, self._answers(removal, client))
        if self._believed:
            return Proof.BELIEVED
        if isinstance(command, AbortedCleaningReleased):
            message = (
                "the event says that these writes aborted; no Metastore is configured that could"
                " confirm it (cleaning.confirm_with)"
            )
            raise Refused(Reason.NOT_CONFIRMED, message)
        return Proof.UNPROVEN

    def aborted(self, command: Cleaning) -> frozenset[int]:
        """The transactions that it knows to have aborted: no reader reads their compactions.

        One call. Empty if it does not answer: the question before the removal says so.
        """
        if (metastore := self._metastore_of(command)) is None:
            return frozenset()
        try:
            with MetastoreClient(metastore) as client:
                return client.transaction_states().aborted
        except TransientError:
            return frozenset()

    def _metastore_of(self, command: Cleaning) -> MetastoreSettings | None:
        catalog = command.table.split(".", 1)[0]
        is_known = self._metastore and catalog == self._metastore.catalog.lower()
        return self._metastore if is_known else None

    def _answers(self, removal: Removal, client: MetastoreClient) -> Answers:
        """Ask for the locks, then the transactions (see `Answers`), then the table.

        A rename moves the locks of a table's readers with it. It shows here, because the table is
        asked for after them.
        """
        database, table, partition = removal.database, removal.table, removal.partition
        if not self._is_checked:  # once: they change with a restart of the Metastore only
            self._at_once, self._is_checked = not client.reads_without_locks(), True
        compactions = client.compactions(database, table)
        # what a transaction has locked elsewhere counts only where readers lock at once
        held = HeldTables(client.locks(None if self._at_once else database))
        transactions = client.transaction_states()
        write_ids = client.write_ids(database, table, transactions.valid())
        try:
            location = normalise(client.table(database, table).location)
        except (MissingInMetastoreError, FormatError):
            location = None
        partition_location = None
        if partition is not None:
            try:
                found = client.partition(database, table, partition)
                partition_location = normalise(found.location)
            except (MetastoreRefusedError, FormatError):  # its columns may be others by now
                partition_location = None
        return Answers(
            location,
            partition_location,
            compactions,
            held,
            transactions,
            write_ids,
            readers_lock_at_once=self._at_once,
        )


def check_files(
    storage: Storage, plan: CleaningPlan, command: Cleaning, parallel_map: ParallelMap
) -> None:
    """Check that the products are complete, by names and by the ends of their ORC files.

    Where the footers of all ORC files can be read, the products must also have as many rows as
    their inputs, less those that may have been deleted.

    Raises:
        Refused: PRODUCTS_INCOMPLETE.
        TransientError, OSError: the store did not answer.
    """
    check_complete(plan, command)
    products = [AcidEntry.parse(directory) for directory in plan.products]
    for where, (is_complete, _) in _ends(storage, products, parallel_map).items():
        if not is_complete:
            message = f"{where} does not end as an ORC file does"
            raise Refused(Reason.PRODUCTS_INCOMPLETE, message)
    replaced = [AcidEntry.parse(directory) for directory in plan.remove]
    made = [entry for entry in products if not entry.is_overwrite and not entry.deletes]
    rows, deletes = rows_needed(products, replaced, snapshot_of(command))
    have, inserted, deleted = (
        _rows(_ends(storage, entries, parallel_map).values()) for entries in (made, rows, deletes)
    )
    if have is None or inserted is None or deleted is None:  # for example compressed by Snappy
        return
    if have + deleted < inserted:
        raise Refused(
            Reason.PRODUCTS_INCOMPLETE,
            f"the vacuum's products have {have} rows, but what they replace has {inserted}, of"
            f" which at most {deleted} were deleted",
        )


def _ends(
    storage: Storage, entries: Iterable[AcidEntry], parallel_map: ParallelMap
) -> dict[str, tuple[bool, int | None]]:
    """By location of the ORC files in directories of full ACID tables: complete, and its rows.

    Raises:
        Refused: PRODUCTS_INCOMPLETE: a file is gone.
    """
    files = [(join(e.listed.path, f.name), f.size) for e in entries for f in e.bucket_files]
    ends = parallel_map.map(partial(_end, storage), files)
    return {where: end for (where, _), end in zip(files, ends, strict=True)}


def _rows(ends: Iterable[tuple[bool, int | None]]) -> int | None:
    """The number of rows; None: a footer can't be read."""
    counts = [rows for _, rows in ends]
    return None if None in counts else sum(count or 0 for count in counts)


def _end(storage: Storage, file: tuple[str, int]) -> tuple[bool, int | None]:
    where, size = file
    try:
        return read_orc_end(storage.read_end(where, LONGEST_END), size)
    except NotFound as error:
        raise Refused(Reason.PRODUCTS_INCOMPLETE, f"{where} is gone") from error
