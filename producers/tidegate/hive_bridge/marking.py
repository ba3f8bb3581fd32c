"""Mark what has been cleaned in the Metastore's queue, after a look at what is left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import (
    ConfinementError,
    FormatError,
    MetastoreRefusedError,
    MissingCallError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.hive_bridge.cleanings import PublishedVacuum
from tidegate.hive_bridge.compactions import Key, key_of, named
from tidegate.hive_bridge.describing import NotDescribed, directory_of
from tidegate.hive_bridge.leftovers import StillNeeded, check_nothing_left
from tidegate.hive_bridge.listed import acid_names, compacted_bases
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.queue import CompactionQueue
from tidegate.hive_metastore.values import Compaction, write_ids_of_compaction
from tidegate.storage import NotFound, Storage, normalise

log = logging.getLogger(__name__)
_AGAIN_SECONDS: Final = 60.0
"""How long after it was found that something is left, it is looked again."""
_STAY: Final = (
    "this Metastore, of a version before Hive 4, has no call to mark what was cleaned: in its queue"
    ' compactions stay "ready for cleaning". Hive\'s own Cleaner must stay off all the same'
)
_NOT_NOW: Final = (
    StillNeeded,
    NotDescribed,
    MetastoreRefusedError,
    NotFound,
    FormatError,
    ConfinementError,
)


def settle(
    compaction: Compaction,
    vacuum: PublishedVacuum,
    client: MetastoreClient,
    queue: CompactionQueue,
    storage: Storage,
) -> bool:
    """Mark a compaction as cleaned if nothing of it is left where its table is now.

    A table or partition that was dropped leaves nothing. Before the mark the queue is asked again,
    because a table of the same name may have taken its place.

    Returns:
        False: the queue does not have it any more; there was nothing to mark.

    Raises:
        StillNeeded: something of it is left, or it can't be told.
        NotDescribed: its partition is not in its table's directory.
        MetastoreRefusedError, TransientError, NotFound, FormatError, ConfinementError: as the
            Metastore, the store and the names in it raise them.
    """
    try:
        _check_directory(compaction, vacuum, client, storage)
    except MissingInMetastoreError as missing:
        log.info("%s: %s", named(compaction), missing)
    now = client.queued(compaction.compaction_id)
    if now is None or not now.is_visible or now.place != compaction.place:
        return False
    queue.mark_cleaned(compaction)
    return True


def _check_directory(
    compaction: Compaction, vacuum: PublishedVacuum, client: MetastoreClient, storage: Storage
) -> None:
    database, name = compaction.database, compaction.table
    location = normalise(client.table(database, name).location)
    where = directory_of(compaction, client, location)
    # before the listing: what is final then stays so
    valid = client.write_ids(database, name, client.transactions().valid())
    names = acid_names(storage.list(where))
    moved = "" if location == vacuum.location else f" (its table was in {vacuum.location} before)"
    try:
        snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
        check_nothing_left(names, vacuum, snapshot, compacted_bases(storage, where, names))
    except StillNeeded as error:
        raise StillNeeded(f"in {where}{moved}: {error}") from error


@dataclass(slots=True)
class _Attempt:
    future: Future[bool] | None = None
    again_at: float = 0.0
    said: str = ""
    marked: bool = False
    compaction: Compaction | None = field(default=None)


class Marking:
    """The entries to be marked; each is checked and marked on a thread, and said once."""

    def __init__(
        self,
        catalog: str,
        settle: Callable[[Compaction, PublishedVacuum], bool],
        threads: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take how one is checked and marked; `settle` is called on several threads."""
        self._catalog, self._settle, self._clock = catalog.lower(), settle, clock
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="mark-cleaned")
        self._attempts: dict[Key, _Attempt] = {}
        self._has_no_mark = False

    def look(self, wanted: Iterable[tuple[Compaction, PublishedVacuum]]) -> int:
        """Take what was done, and begin what is to be done; how many were marked meanwhile."""
        if self._has_no_mark:
            return 0
        entries = {key_of(each, self._catalog): (each, vacuum) for each, vacuum in wanted}
        marked = self._finish()
        for gone in self._attempts.keys() - entries.keys():
            if self._attempts[gone].future is None:
                del self._attempts[gone]
        for key, (compaction, vacuum) in entries.items():
            attempt = self._attempts.setdefault(key, _Attempt())
            if attempt.future is None and not attempt.marked and self._clock() >= attempt.again_at:
                attempt.compaction = compaction
                attempt.future = self._pool.submit(self._settle, compaction, vacuum)
        return marked

    def wait(self, seconds: float) -> None:
        """Wait for what is under way, so long at most."""
        for attempt in list(self._attempts.values()):
            if attempt.future is not None:
                try:
                    attempt.future.exception(seconds)
                except TimeoutError:
                    return

    def close(self) -> None:
        """Give up what is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _finish(self) -> int:
        marked = 0
        for attempt in self._attempts.values():
            future, compaction = attempt.future, attempt.compaction
            if future is None or compaction is None or not future.done():
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
                log.debug("%s is marked later: %s", named(compaction), error)
            except (*_NOT_NOW, OSError, ValueError) as error:
                attempt.marked = False
                attempt.again_at = self._clock() + _AGAIN_SECONDS
                if str(error) != attempt.said:
                    log.warning("%s is not marked as cleaned: %s", named(compaction), error)
                attempt.said = str(error)
        return marked
