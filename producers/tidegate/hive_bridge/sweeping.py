"""Search periodically for directories of aborted writes, on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pydantic import ValidationError

from tidegate.errors import (
    ConfinementError,
    FormatError,
    MetastoreRefusedError,
    MissingCallError,
    TransientError,
)
from tidegate.errors.validation import validation_message
from tidegate.events import WritesAborted
from tidegate.hive_bridge.aborted import AbortedTable, forget, look_at_table, tables_with_aborted
from tidegate.hive_bridge.ages import Ages
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.queue import CompactionQueue
from tidegate.storage import NotFound, Storage

log = logging.getLogger(__name__)
_KNOWN: Final = (
    *(MetastoreRefusedError, NotFound, FormatError, ConfinementError, OSError),
    ValueError,  # a name that no event can hold: it has a space, is too long or is not UTF-8
)
_AGAIN_SECONDS: Final = 3600.0
"""Directories that are still there this long after an event about them are published again."""


class AbortedSweep:
    """Checks every table with aborted writes; every sweep reads the Metastore and the store anew.

    A writer whose transaction timed out may still be writing. So no directory is removed, and no
    write is forgotten, before the write has been seen as aborted for the grace time.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        storage: Storage,
        source: str,
        clock: Callable[[], float],
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Create a sweep, without a call to the Metastore. `clock` counts seconds."""
        self._settings, self._storage, self._source = settings, storage, source
        self._clock, self._observer, self._called = clock, observer, observer.called
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aborted")
        self._running: Future[list[WritesAborted]] | None = None
        self._next = 0.0
        self._ages = Ages(settings.aborted_grace_ms / 1000, clock)
        self._published: dict[str, float] = {}
        self._forgotten: dict[tuple[str, str], str] = {}
        self._logged: dict[str, str] = {}

    def look(self, aborted: frozenset[int]) -> list[WritesAborted]:
        """Return the events to publish now, and begin the next sweep if it is due.

        Args:
            aborted: The aborted transactions that the Metastore still knows.
        """
        found: list[WritesAborted] = []
        if self._running is not None and self._running.done():
            done, self._running = self._running, None
            try:
                found = [event for event in done.result() if self._is_due(event)]
            except TransientError as error:
                log.debug("the search for aborted writes failed, trying again: %s", error)
            except MetastoreRefusedError as error:  # it must not stop the releases of locks
                self._log_once("any table", str(error))
        wanted = self._settings.aborted_interval_ms
        if self._running is None and wanted and aborted and self._clock() >= self._next:
            self._next = self._clock() + wanted / 1000
            self._running = self._thread.submit(self._sweep)
        return found

    def published(self, event: WritesAborted) -> None:
        """Record that an event is on the topic."""
        self._published[event.event_id] = self._clock()

    def wait(self, seconds: float) -> None:
        """Wait for the running sweep, for at most `seconds`."""
        if self._running is not None:
            self._running.exception(seconds)

    def close(self) -> None:
        """Cancel the sweep."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, event: WritesAborted) -> bool:
        last = self._published.get(event.event_id)
        return last is None or self._clock() - last >= _AGAIN_SECONDS

    def _sweep(self) -> list[WritesAborted]:
        found: list[WritesAborted] = []
        seen: set[tuple[str, str]] = set()
        called = self._called
        with (
            MetastoreClient(self._settings, called) as client,
            CompactionQueue(self._settings, called) as queue,
        ):
            transactions = client.transactions().valid()
            for database, name, write_ids in tables_with_aborted(client, transactions):
                key = (database, name)
                seen.add(key)
                if self._ages.is_of_new_table(key, write_ids):
                    self._forgotten.pop(key, None)
                old = self._ages.old_enough(key, write_ids)
                if not old.aborted.firsts or self._forgotten.get(key) == str(old.aborted):
                    continue
                try:
                    table = look_at_table(database, name, old, client, self._storage)
                    if table is not None:
                        found += self._handled(table, client, queue)
                except _KNOWN as error:
                    self._log_once(f"{database}.{name}", _why(error))
        for gone in self._ages.keep_only(seen):
            self._forgotten.pop(gone, None)
        return found

    def _handled(
        self, table: AbortedTable, client: MetastoreClient, queue: CompactionQueue
    ) -> list[WritesAborted]:
        name = f"{table.database}.{table.name}"
        if not table.places:
            try:
                forget(table, client.compactions(), queue)
            except MissingCallError:  # Hive 3 goes on listing them, which costs readers time
                log.info("this Metastore has no call to forget the aborted writes of %s", name)
            self._forgotten[table.database, table.name] = str(table.write_ids.aborted)
            highest = table.write_ids.high_water_mark
            log.info("no directory is left of the aborted writes of %s up to %d", name, highest)
        if mixed := [name for place in table.places for name in place.mixed]:
            why = "has rows of aborted writes among others, or must not be cleaned: compact it"
            self._log_once(name, f"{mixed[0]} {why}")
        return list(table.events(self._settings.catalog, self._source))

    def _log_once(self, table: str, text: str) -> None:
        if self._logged.get(table) != text:
            log.warning("aborted writes of %s stay: %s", table, text)
            self._observer.refused()
        self._logged[table] = text


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"the event is invalid: {validation_message(error)}"
    return f"{type(error).__name__}: {error}"
