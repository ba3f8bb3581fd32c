"""Find the directories of aborted writes; once all are gone, let the Metastore forget the writes.

Hive's own Cleaner does this. Where it is off, aborted writes stay until the table is compacted. The
walk covers the table's complete directory, because an aborted write with dynamic partitions may
have left directories of partitions that the Metastore does not know (HIVE-21052). If the walk can't
see everything that a reader may see, it refuses: forgetting an abort makes its rows visible.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from tidegate.errors import (
    ConfinementError,
    FormatError,
    MetastoreRefusedError,
    MissingCallError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.errors.validation import validation_message
from tidegate.events import WritesAborted
from tidegate.hive.content import content_hash
from tidegate.hive.names import is_acid_name
from tidegate.hive.obsolete import FoundDirectory, aborted_rows
from tidegate.hive.write_ids import RangeResponse, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.describing import acid_directories, has_no_cleanup
from tidegate.hive_bridge.observer import UNOBSERVED, Observer
from tidegate.hive_bridge.products import is_of_failed_compaction
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import (
    ABORT_CLEAN_UP,
    WORKING,
    QueueEntry,
    Table,
    final_write_ids,
    write_ids_of_compaction,
)
from tidegate.storage import NotFound, Storage, is_below, join, normalise

_TABLES_A_CALL: Final = 200
_DEEPEST: Final = 100
"""The most levels of partitions. Links can't add levels, because the walk does not follow them."""


_TableName = tuple[str, str]
"""The database, and the table in it."""
log = logging.getLogger(__name__)
_KNOWN: Final = (
    *(MetastoreRefusedError, NotFound, FormatError, ConfinementError, OSError),
    ValueError,  # a name that no event can hold: it has a space, is too long or is not UTF-8
)
_AGAIN_SECONDS: Final = 3600.0
"""Directories that are still there this long after an event about them are published again."""


@dataclass(frozen=True, slots=True)
class _AbortedPlace:
    """A table's or partition's directory that contains directories with aborted rows."""

    partition: str | None
    alone: tuple[str, ...]
    """Names of the directories that contain aborted rows only; these can be removed."""
    mixed: tuple[str, ...]
    """Names of the directories that stay: they also contain other rows or are of a compaction that
    aborted, so that a compaction's cleaning removes them; or their partition must not be cleaned.
    """
    content: str = ""
    """The `content_hash` of the directories in `alone`."""


@dataclass(frozen=True, slots=True)
class _AbortedTable:
    """A table with aborted writes; every write id up to its high-water mark is final."""

    database: str
    name: str
    location: str
    write_ids: ValidWriteIds
    places: tuple[_AbortedPlace, ...]

    def events(self, catalog: str, source: str) -> Iterator[WritesAborted]:
        """One event for each place with directories to remove."""
        for place in self.places:
            if place.alone:
                yield WritesAborted(
                    table=f"{catalog}.{self.database}.{self.name}",
                    location=self.location,
                    occurred_at=datetime.now(UTC),
                    source=source,
                    partition=place.partition,
                    valid_write_ids=str(self.write_ids),
                    content=place.content,
                )


def tables_with_aborted(
    client: MetastoreClient, transactions: ValidTxns
) -> Iterator[tuple[str, str, ValidWriteIds]]:
    """Find the tables with an aborted write whose id is below every open one.

    Yields:
        The database, the table's name, and its final write ids.

    Raises:
        TransientError: the Metastore did not answer.
    """
    tables = client.tables()
    for start in range(0, len(tables), _TABLES_A_CALL):
        names = [f"{database}.{name}" for database, name in tables[start : start + _TABLES_A_CALL]]
        for found in client.all_write_ids(names, transactions):
            final = final_write_ids(found)
            if final.aborted.firsts:
                database, name = found.table.split(".", 1)
                yield database, name, final


def look_at_table(
    database: str, name: str, write_ids: ValidWriteIds, client: MetastoreClient, storage: Storage
) -> _AbortedTable | None:
    """Walk a table's directory.

    The caller fetched the write ids earlier, perhaps of another table that had this name then. So
    this fetches them once more after the walk.

    Returns:
        None if the table is not ACID, was dropped or created again, or must not be cleaned; or if
        nothing is left, but a compaction may have written since the walk, and aborted.

    Raises:
        TransientError, OSError: the Metastore or the store did not answer.
        FormatError: a directory's name is not one of Hive's.
        NotFound, ConfinementError: its directory does not exist, or contains a link.
    """
    try:
        table = client.table(database, name)
    except MissingInMetastoreError:
        return None
    if not table.is_acid or has_no_cleanup(table.parameters):
        return None
    location = normalise(table.location)
    registered = _registered(location, client.partitions(database, name))
    # before the walk: what is open now may have aborted by the time that all is forgotten
    transactions = client.transactions().valid()
    walk = _Walk(storage, location, write_ids, transactions, _with_parents(registered))
    found = list(walk.places())
    walk.check_listed(registered)
    if not _is_same(database, name, write_ids, client):
        return None
    # Hive 3.1.3 returns those of all tables
    compactions = () if found else client.compactions(database, name)
    if _is_compacted((c for c in compactions if c.place[:2] == (database, name)), transactions):
        return None
    spared = {
        path for path, partition in registered.items() if has_no_cleanup(partition.parameters)
    }
    places = tuple(
        replace(place, alone=(), mixed=(*place.alone, *place.mixed))
        if place.partition in spared
        else place
        for place in found
    )
    return _AbortedTable(database, name, location, write_ids, places)


def _is_compacted(entries: Iterable[QueueEntry], before: ValidTxns) -> bool:
    """Whether a compaction of these was under way since, whatever became of it.

    Forgetting a table's aborts forgets its abort too, and then readers see its directory.
    """
    return any(
        entry.state == WORKING
        or (
            entry.transaction_id is not None
            and not before.is_valid(entry.transaction_id)
            and not before.is_aborted(entry.transaction_id)
        )
        for entry in entries
    )


def _is_same(database: str, name: str, write_ids: ValidWriteIds, client: MetastoreClient) -> bool:
    """Whether the table still has these write ids; another table of this name has other ids."""
    now = client.write_ids(database, name, client.transactions().valid())
    final = write_ids_of_compaction(now, write_ids.high_water_mark)
    return final.aborted == write_ids.aborted and not final.has_open


def _registered(location: str, partitions: Iterable[Table]) -> dict[str, Table]:
    """The Metastore's partitions, by their paths relative to the table.

    Raises:
        ConfinementError: a partition is not below its table, so that the walk can't reach it.
    """
    found: dict[str, Table] = {}
    for partition in partitions:
        where = normalise(partition.location)
        if not is_below(where, location):
            raise ConfinementError(f"a partition is not in its table's directory, but in {where}")
        found[where.removeprefix(location).strip("/")] = partition
    return found


def _with_parents(paths: Iterable[str]) -> frozenset[str]:
    """The paths and all their parent directories."""
    return frozenset(path[: end.start()] for path in paths for end in re.finditer(r"/|$", path))


def forget(table: _AbortedTable, client: MetastoreClient) -> None:
    """Let the Metastore forget a table's aborted writes. None of their directories may be left.

    Args:
        table: The table; its `places` are empty.
        client: Its Metastore, whose own entries for this clean-up are ended too.

    Raises:
        TransientError: the Metastore did not answer.
        MetastoreRefusedError: the Metastore refused the call.
        ValueError: the table still has directories of aborted writes.
    """
    if table.places:
        raise ValueError("directories of aborted writes are left")
    highest, waiting = table.write_ids.high_water_mark, client.compactions()
    client.mark_aborted_cleaned(table.database, table.name, highest)
    for entry in waiting:
        if entry.type == ABORT_CLEAN_UP and entry.place[:2] == (table.database, table.name):
            client.mark_aborted_cleaned(table.database, table.name, highest, entry.compaction_id)


@dataclass(slots=True)
class _Walk:
    """A walk of a table's directory. Consume `places` completely, then call `check_listed`."""

    storage: Storage
    location: str
    write_ids: ValidWriteIds
    transactions: ValidTxns
    registered: frozenset[str]
    """The paths of registered partitions and of their parent directories."""
    _listed: set[str] = field(default_factory=set[str])

    def places(self, below: str = "") -> Iterator[_AbortedPlace]:
        """The places with aborted rows in the table, or in the directory `below` it.

        Raises:
            ConfinementError: there is a link. Readers follow it and this walk does not.
            NotFound, FormatError: as for `look_at_table`.
        """
        if below.count("/") > _DEEPEST:
            raise NotFound(f"directories are nested too deeply in {self.location}")
        where = join(self.location, below) if below else self.location
        entries = self.storage.list(where)
        self._listed.add(below)
        for entry in entries:
            inner = f"{below}/{entry.name}" if below else entry.name
            if is_acid_name(entry.name) or self._is_hidden(inner, entry.name):
                continue
            if entry.is_link:
                raise ConfinementError(
                    f"{entry.path} is a symbolic link: the walk skips its target"
                )
            if entry.is_dir:
                yield from self.places(inner)
        found = acid_directories(self.storage, where, entries)
        place = judged(below or None, found, self.write_ids, self.transactions)
        if place.alone or place.mixed:
            yield replace(place, content=_content(self.storage, where, place.alone))

    def check_listed(self, registered: Iterable[str]) -> None:
        """Check that the walk reached every registered partition that has a directory.

        Raises:
            ConfinementError: a partition was not reached, though its directory can be listed.
        """
        for path in registered:
            if path in self._listed:
                continue
            where = join(self.location, path)
            try:
                self.storage.list(where)
            except NotFound:
                continue
            raise ConfinementError(f"the walk of the table did not reach the partition in {where}")

    def _is_hidden(self, path: str, name: str) -> bool:
        """Whether readers skip it: its name is hidden, and it is not a partition's directory.

        A column's name may begin with an underscore, and then its partitions' directories do too.
        """
        return name.startswith((".", "_")) and "=" not in name and path not in self.registered


def _content(storage: Storage, where: str, names: Iterable[str]) -> str:
    files = {name: storage.walk(join(where, name)) for name in names}
    return content_hash(
        {
            name: [(file.name, file.size, file.modified_ms) for file in found]
            for name, found in files.items()
        }
    )


def judged(
    partition: str | None,
    found: Sequence[FoundDirectory],
    write_ids: ValidWriteIds,
    transactions: ValidTxns,
) -> _AbortedPlace:
    """Find the ACID directories with aborted rows in a table's or partition's directory. Pure.

    Args:
        partition: The partition, or None for the table's directory.
        found: The ACID directories in it.
        write_ids: The table's final write ids.
        transactions: The valid transactions now.
    """
    rows = {directory.name: aborted_rows(directory, write_ids) for directory in found}
    alone = tuple(name for name in rows if rows[name] is RangeResponse.ALL)
    mixed = tuple(
        directory.name
        for directory in found
        if rows[directory.name] is RangeResponse.SOME
        or is_of_failed_compaction(directory, transactions)
    )
    return _AbortedPlace(partition, alone, mixed)


class _Ages:
    """Finds the write ids that have been seen as final for the grace time.

    Order of calls for a table: `is_of_new_table`, then `old_enough`.
    """

    def __init__(self, grace: float, clock: Callable[[], float]) -> None:
        """Take the grace time in seconds, and a clock of seconds."""
        self._grace, self._clock = grace, clock
        self._seen: dict[_TableName, list[tuple[float, int]]] = {}
        """By table: when (in seconds) the final write ids first reached a write id."""

    def is_of_new_table(self, key: _TableName, write_ids: ValidWriteIds) -> bool:
        """Whether this may be a new table with an old name: its last final write id went down.

        If so, this forgets the old table, and the new table's writes begin a grace time of their
        own. The same table shows a lower id if the Metastore forgot its last write; the only cost
        is one more grace time.
        """
        seen = self._seen.get(key)
        if not seen or seen[-1][1] <= write_ids.high_water_mark:
            return False
        del self._seen[key]
        return True

    def old_enough(self, key: _TableName, write_ids: ValidWriteIds) -> ValidWriteIds:
        """The write ids seen as final for the grace time; later aborts do not delay them."""
        now, last = self._clock(), write_ids.high_water_mark
        seen = self._seen.setdefault(key, [])
        if not seen or seen[-1][1] < last:
            seen.append((now, last))
        old = [at for at, (since, _) in enumerate(seen) if now - since >= self._grace]
        if not old:
            return write_ids_of_compaction(write_ids, 0)
        del seen[: old[-1]]
        return write_ids_of_compaction(write_ids, seen[0][1])

    def keep_only(self, keys: Collection[_TableName]) -> frozenset[_TableName]:
        """Forget all tables but these; returns the forgotten ones."""
        gone = frozenset(self._seen.keys() - keys)
        for key in gone:
            del self._seen[key]
        return gone


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
        self._clock, self._observer = clock, observer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aborted")
        self._running: Future[list[WritesAborted]] | None = None
        self._next = 0.0
        self._ages = _Ages(settings.aborted_grace_ms / 1000, clock)
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

    def close(self) -> None:
        """Cancel the sweep."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, event: WritesAborted) -> bool:
        last = self._published.get(event.event_id)
        return last is None or self._clock() - last >= _AGAIN_SECONDS

    def _sweep(self) -> list[WritesAborted]:
        found: list[WritesAborted] = []
        seen: set[tuple[str, str]] = set()
        with MetastoreClient(self._settings, self._observer.called) as client:
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
                        found += self._handled(table, client)
                except _KNOWN as error:
                    self._log_once(f"{database}.{name}", _why(error))
        for gone in self._ages.keep_only(seen):
            self._forgotten.pop(gone, None)
        return found

    def _handled(self, table: _AbortedTable, client: MetastoreClient) -> list[WritesAborted]:
        name = f"{table.database}.{table.name}"
        if not table.places:
            try:
                forget(table, client)
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
