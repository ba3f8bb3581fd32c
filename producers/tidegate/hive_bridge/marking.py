"""Mark cleaned compactions in the Metastore's queue, after a check that nothing is left.

Marking a compaction as cleaned also makes the Metastore forget which write ids, up to the
compaction's highest, were aborted, and which earlier compactions. If a directory of one is left,
every reader sees its rows from then on (HIVE-24302, HIVE-24444). So the check precedes every mark,
even after an outcome that reports the cleaning as done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tidegate.errors import (
    ConfinementError,
    FormatError,
    MetastoreRefusedError,
    MissingCallError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.hive.compaction import InconsistentCompaction
from tidegate.hive.obsolete import FoundDirectory, NotEnoughHistory, aborted_rows
from tidegate.hive.write_ids import RangeResponse, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.compactions import Key, key_of, named
from tidegate.hive_bridge.describing import NotYet, acid_directories, directory_of
from tidegate.hive_bridge.products import VacuumFields, is_of_failed_compaction
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import QueueEntry, write_ids_of_compaction
from tidegate.storage import NotFound, Storage, normalise

log = logging.getLogger(__name__)
_AGAIN_SECONDS: Final = 60.0
"""The time between two checks of a compaction whose directories are not all removed."""
_STAY: Final = (
    "this Metastore, older than Hive 4, has no call to mark cleaned compactions: they stay"
    ' "ready for cleaning" in its queue. Hive\'s own Cleaner must stay off nevertheless'
)
_NOT_NOW: Final = (NotYet, MetastoreRefusedError, NotFound, FormatError, ConfinementError)


def check_nothing_left(
    found: Sequence[FoundDirectory],
    vacuum: VacuumFields,
    write_ids: ValidWriteIds,
    transactions: ValidTxns,
    own: int | None,
) -> None:
    """Check that a compaction may be marked as cleaned.

    Args:
        found: The ACID directories of the table or partition now.
        vacuum: The published vacuum.
        write_ids: The table's valid write ids now, up to the compaction's highest write id.
        transactions: The valid transactions now.
        own: The transaction of the queue's entry. Products have it in their names, whatever
            an event calls them. None (Hive 3): the names don't show it.

    Raises:
        NotYet: a directory is left, or the check has too little information.
        FormatError: the vacuum's snapshot can't be parsed.
    """
    if write_ids.has_open:
        raise NotYet(
            f"the write id {write_ids.min_open} is open and may abort; it is checked again later"
        )
    try:
        compaction = vacuum.compaction()
        failed = [one for one in found if is_of_failed_compaction(one, transactions)]
        read = [one for one in found if one not in failed]
        left = [directory.name for directory in compaction.removable(read).obsolete]
    except (InconsistentCompaction, NotEnoughHistory) as error:
        raise NotYet(str(error)) from error
    if left:
        raise NotYet(f"{left[0]} is there, which the compaction made obsolete")
    for directory in failed:
        if directory.acid.max_write_id <= write_ids.high_water_mark:
            raise NotYet(
                f"{directory.name} is there, of a compaction that aborted, which every reader would"
                " see"
            )
    for directory in read:
        rows = aborted_rows(directory, write_ids)
        # no compaction makes a directory of aborted writes alone, whatever an event calls it
        is_product = own is None and compaction.is_product(directory.acid)
        if rows is RangeResponse.ALL or (rows is RangeResponse.SOME and not is_product):
            raise NotYet(
                f"{directory.name} is there, with rows of an aborted write, which every reader"
                " would see"
            )


def settle(
    compaction: QueueEntry, vacuum: VacuumFields, client: MetastoreClient, storage: Storage
) -> bool:
    """Mark a compaction as cleaned if no obsolete directory is left in its table's directory.

    A dropped table or partition has nothing left. The queue is read again before the mark, because
    a new table may have the same name.

    Returns:
        Whether it was marked; False if the queue no longer lists the compaction.

    Raises:
        NotYet: a directory is left, or the check has too little information.
        MetastoreRefusedError, TransientError: the Metastore refused a call, or did not answer.
        NotFound, FormatError, ConfinementError: the directory can't be listed, or has names that
            are not Hive's; or the partition is not in its table's directory.
    """
    try:
        _check_directory(compaction, vacuum, client, storage)
    except MissingInMetastoreError as missing:
        log.info("%s: %s", named(compaction), missing)
    now = client.queued(compaction.compaction_id)
    if now is None or not now.is_visible or now.place != compaction.place:
        return False
    client.mark_cleaned(compaction)
    return True


def _check_directory(
    compaction: QueueEntry, vacuum: VacuumFields, client: MetastoreClient, storage: Storage
) -> None:
    database, name = compaction.database, compaction.table
    location = normalise(client.table(database, name).location)
    where = directory_of(compaction, client, location)
    # before the listing: final write ids stay final
    transactions = client.transactions().valid()
    valid = client.write_ids(database, name, transactions)
    found = acid_directories(storage, where, storage.list(where))
    moved = "" if location == vacuum.location else f" (its table was in {vacuum.location} before)"
    try:
        snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
        check_nothing_left(found, vacuum, snapshot, transactions, compaction.transaction_id)
    except NotYet as error:
        raise NotYet(f"in {where}{moved}: {error}") from error


@dataclass(slots=True)
class _Attempt:
    compaction: QueueEntry
    future: Future[bool] | None = None
    again_at: float = 0.0
    logged: str = ""
    marked: bool = False


class Marking:
    """Checks and marks compactions on threads. Repeated failures are logged once."""

    def __init__(
        self,
        catalog: str,
        settle: Callable[[QueueEntry, VacuumFields], bool],
        threads: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the threads; `settle` checks and marks one, and is called on several of them."""
        self._catalog, self._settle, self._clock = catalog.lower(), settle, clock
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mark-cleaned")
        self._attempts: dict[Key, _Attempt] = {}
        self._has_no_mark = False

    def look(self, wanted: Iterable[tuple[QueueEntry, VacuumFields]]) -> int:
        """Start the checks that are due; returns how many compactions were marked meanwhile."""
        if self._has_no_mark:
            return 0
        entries = {
            key_of(compaction, self._catalog): (compaction, vacuum) for compaction, vacuum in wanted
        }
        marked = self._finish()
        for gone in self._attempts.keys() - entries.keys():
            if self._attempts[gone].future is None:
                del self._attempts[gone]
        for key, (compaction, vacuum) in entries.items():
            attempt = self._attempts.setdefault(key, _Attempt(compaction))
            if attempt.future is None and not attempt.marked and self._clock() >= attempt.again_at:
                attempt.future = self._pool.submit(self._settle, compaction, vacuum)
        return marked

    def close(self) -> None:
        """Cancel the checks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self) -> int:
        marked = 0
        for attempt in self._attempts.values():
            future, compaction = attempt.future, attempt.compaction
            if future is None or not future.done():
                continue
            attempt.future = None
            try:
                attempt.marked = True
                if future.result():
                    marked += 1
                    log.info("%s is marked as cleaned", named(compaction))
            except MissingCallError:
                if not self._has_no_mark:
                    log.warning(_STAY)
                self._has_no_mark = True
            except TransientError as error:
                attempt.marked = False
                log.debug("%s could not be marked, trying again: %s", named(compaction), error)
            except (*_NOT_NOW, OSError, ValueError) as error:
                attempt.marked = False
                attempt.again_at = self._clock() + _AGAIN_SECONDS
                if str(error) != attempt.logged:
                    log.warning("%s is not marked as cleaned: %s", named(compaction), error)
                attempt.logged = str(error)
        return marked
