"""Search all tables for what aborted writes left, from time to time.

Hive's own Cleaner does this. Where it is off, aborted writes stay until the table is compacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
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
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.hive_bridge.aborted import forget, look_at_table, tables_with_aborted
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import write_ids_of_compaction
from tidegate.storage import NotFound, Storage

log = logging.getLogger(__name__)
_KNOWN: Final = (
    *(MetastoreRefusedError, NotFound, FormatError, ConfinementError, OSError),
    ValueError,  # a name that no event can hold
)
_AGAIN_SECONDS: Final = 3600.0
"""Directories that are still there this long after an event about them are published again."""


@dataclass(slots=True)
class _SeenTable:
    """A table with aborted writes, as far as this process has seen it."""

    reached: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When (in seconds) the final write ids first reached a write id."""
    forgotten: str = ""
    """The aborted write ids that left nothing: the Metastore has been asked to forget them."""

    def may_have(self, write_ids: ValidWriteIds) -> bool:
        """Whether these may be its own; another table of its name begins with lower write ids.

        The same table shows a lower id if the Metastore forgot its last write; the only cost is one
        more grace time.
        """
        return not self.reached or self.reached[-1][1] <= write_ids.high_water_mark

    def old_enough(self, write_ids: ValidWriteIds, now: float, grace: float) -> ValidWriteIds:
        """The write ids seen as final for the grace time; later aborts do not delay them.

        `now` and `grace` are in seconds.
        """
        last = write_ids.high_water_mark
        if not self.reached or self.reached[-1][1] < last:
            self.reached.append((now, last))
        old = [at for at, (since, _) in enumerate(self.reached) if now - since >= grace]
        if not old:
            return write_ids_of_compaction(write_ids, 0)
        del self.reached[: old[-1]]
        return write_ids_of_compaction(write_ids, self.reached[0][1])


class AbortedSweep:
    """Checks every table with aborted writes; every sweep reads the Metastore and the store anew.

    A writer whose transaction timed out may still be writing. So no directory is removed, and no
    write is forgotten, before the write has been seen as aborted for the grace time.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        storage: Storage,
        clock: Callable[[], float],
        observer: Observer = UNOBSERVED,
    ) -> None:
        """Create a sweep, without a call to the Metastore. `clock` counts seconds."""
        self._settings, self._storage = settings, storage
        self._clock, self._observer = clock, observer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aborted")
        self._running: Future[list[WritesAborted]] | None = None
        self._next = 0.0
        self._seen: dict[str, _SeenTable] = {}
        self._published: dict[str, float] = {}
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

    def close(self) -> None:
        """Cancel the sweep."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, event: WritesAborted) -> bool:
        last = self._published.get(event.event_id)
        return last is None or self._clock() - last >= _AGAIN_SECONDS

    def _sweep(self) -> list[WritesAborted]:
        found: list[WritesAborted] = []
        listed: set[str] = set()
        with MetastoreClient(self._settings, self._observer.called) as client:
            transactions = client.transactions().valid()
            for write_ids in tables_with_aborted(client, transactions):
                name = write_ids.table
                listed.add(name)
                table = self._seen.get(name)
                if table is None or not table.may_have(write_ids):
                    table = self._seen[name] = _SeenTable()
                grace = self._settings.aborted_grace_ms / 1000
                old = table.old_enough(write_ids, self._clock(), grace)
                if not old.aborted.firsts or table.forgotten == str(old.aborted):
                    continue
                try:
                    found += self._looked(table, old, client)
                except _KNOWN as error:
                    self._log_once(name, _why(error))
        self._seen = {name: self._seen[name] for name in listed}
        return found

    def _looked(
        self, table: _SeenTable, write_ids: ValidWriteIds, client: MetastoreClient
    ) -> list[WritesAborted]:
        looked = look_at_table(self._settings.catalog, write_ids, client, self._storage)
        if looked is None:
            return []
        events, staying = looked
        name, highest = write_ids.table, write_ids.high_water_mark
        if not events and not staying:
            try:
                forget(write_ids, client)
            except MissingCallError:  # Hive 3 goes on listing them, which costs readers time
                log.info("this Metastore has no call to forget the aborted writes of %s", name)
            table.forgotten = str(write_ids.aborted)
            log.info("no directory is left of the aborted writes of %s up to %d", name, highest)
        if staying:
            why = "has rows of aborted writes among others, or must not be cleaned: compact it"
            self._log_once(name, f"{staying[0]} {why}")
        return events

    def _log_once(self, table: str, text: str) -> None:
        if self._logged.get(table) != text:
            log.warning("aborted writes of %s stay: %s", table, text)
            self._observer.refused()
        self._logged[table] = text


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"the event is invalid: {validation_message(error)}"
    return f"{type(error).__name__}: {error}"
