"""Find the directories of aborted writes; once all are gone, let the Metastore forget the writes.

Hive's own Cleaner does this. Where it is off, aborted writes stay until the table is compacted. The
walk covers the table's complete directory, because an aborted write with dynamic partitions may
have left directories of partitions that the Metastore does not know (HIVE-21052). If the walk can't
see everything that a reader may see, it refuses: forgetting an abort makes its rows visible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from tidegate.errors import ConfinementError, MissingInMetastoreError
from tidegate.events import WritesAborted
from tidegate.hive import (
    Base,
    FoundDirectory,
    RangeResponse,
    ValidTxns,
    ValidWriteIds,
    content_hash,
    is_acid_name,
)
from tidegate.hive_bridge.cleanup_properties import has_no_cleanup
from tidegate.hive_bridge.leftovers import holds_aborted
from tidegate.hive_bridge.listed import acid_names, compacted_bases
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.queue import CompactionQueue
from tidegate.hive_metastore.values import (
    ABORT_CLEAN_UP,
    Compaction,
    Table,
    final_write_ids,
    write_ids_of_compaction,
)
from tidegate.storage import NotFound, Storage, is_below, join, normalise

_TABLES_A_CALL: Final = 200
_DEEPEST: Final = 100
"""The most levels of partitions. Links can't add levels, because the walk does not follow them."""


@dataclass(frozen=True, slots=True)
class AbortedPlace:
    """A table's or partition's directory that contains directories with aborted rows."""

    partition: str | None
    alone: tuple[str, ...]
    """Names of the directories that contain aborted rows only; these can be removed."""
    mixed: tuple[str, ...]
    """Names of the directories that stay: they also contain other rows, so that only a compaction
    makes them obsolete, or their partition must not be cleaned."""
    content: str = ""
    """The `content_hash` of the directories in `alone`."""


@dataclass(frozen=True, slots=True)
class AbortedTable:
    """A table with aborted writes; every write id up to its high-water mark is final."""

    database: str
    name: str
    location: str
    write_ids: ValidWriteIds
    places: tuple[AbortedPlace, ...]

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
) -> AbortedTable | None:
    """Walk a table's directory.

    The caller fetched the write ids earlier, perhaps of another table that had this name then. So
    this fetches them once more after the walk.

    Returns:
        None if the table is not ACID, was dropped or created again, or must not be cleaned.

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
    walk = _Walk(storage, location, write_ids, _with_parents(registered))
    found = list(walk.places())
    walk.check_listed(registered)
    if not _is_same(database, name, write_ids, client):
        return None
    spared = {
        path for path, partition in registered.items() if has_no_cleanup(partition.parameters)
    }
    places = tuple(_spared(place) if place.partition in spared else place for place in found)
    return AbortedTable(database, name, location, write_ids, places)


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


def _spared(place: AbortedPlace) -> AbortedPlace:
    return AbortedPlace(place.partition, (), (*place.alone, *place.mixed))


def forget(table: AbortedTable, waiting: Iterable[Compaction], queue: CompactionQueue) -> None:
    """Let the Metastore forget a table's aborted writes. None of their directories may be left.

    Args:
        table: The table; its `places` are empty.
        waiting: The Metastore's queue. Its own entries for this clean-up are ended too.
        queue: The connection that marks it.

    Raises:
        TransientError: the Metastore did not answer.
        MetastoreRefusedError: the Metastore refused the call.
        ValueError: the table still has directories of aborted writes.
    """
    if table.places:
        raise ValueError("directories of aborted writes are left")
    highest = table.write_ids.high_water_mark
    queue.mark_aborted_cleaned(table.database, table.name, highest)
    for entry in waiting:
        if entry.type == ABORT_CLEAN_UP and (entry.database, entry.table) == (
            table.database,
            table.name,
        ):
            queue.mark_aborted_cleaned(table.database, table.name, highest, entry.compaction_id)


@dataclass(slots=True)
class _Walk:
    """A walk of a table's directory. Consume `places` completely, then call `check_listed`."""

    storage: Storage
    location: str
    write_ids: ValidWriteIds
    registered: frozenset[str]
    """The paths of registered partitions and of their parent directories."""
    _listed: set[str] = field(default_factory=set[str])

    def places(self, below: str = "") -> Iterator[AbortedPlace]:
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
        names = acid_names(entries)
        compacted = compacted_bases(self.storage, where, names)
        place = judged(below or None, names, self.write_ids, compacted)
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
    names: Iterable[str],
    write_ids: ValidWriteIds,
    compacted: Collection[str] = (),
) -> AbortedPlace:
    """Find the ACID directories with aborted rows in a table's or partition's directory. Pure.

    Args:
        partition: The partition, or None for the table's directory.
        names: The names in the directory.
        write_ids: The table's final write ids.
        compacted: The names that `compacted_bases` returned.

    Raises:
        FormatError: a name is not one of Hive's.
    """
    found = [FoundDirectory.named(name, compacted=name in compacted) for name in names]
    aborted = [directory for directory in found if holds_aborted(directory, write_ids)]
    alone = tuple(directory.name for directory in aborted if _is_alone(directory, write_ids))
    mixed = tuple(directory.name for directory in aborted if directory.name not in alone)
    return AbortedPlace(partition, alone, mixed)


def _is_alone(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    acid = found.acid
    first = acid.write_id if isinstance(acid, Base) else acid.min_write_id
    if acid.max_write_id > write_ids.high_water_mark:
        return False
    return write_ids.aborted_in(first, acid.max_write_id) is RangeResponse.ALL
