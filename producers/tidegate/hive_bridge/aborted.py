"""Find what aborted writes left, and let the Metastore forget them once nothing is left.

Hive's own Cleaner does it; where that is off, nobody else does, unless the table is compacted. The
whole directory of a table is walked: a write with dynamic partitions that aborted early has left
directories of partitions that the Metastore has never heard of (HIVE-21052).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
from tidegate.hive_bridge.listed import acid_names
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
"""Levels of partitions; a link can't make more, because links are not followed."""


@dataclass(frozen=True, slots=True)
class AbortedPlace:
    """A table's or partition's directory, with directories that hold aborted rows."""

    partition: str | None
    alone: tuple[str, ...]
    """Those with nothing else."""
    mixed: tuple[str, ...]
    """Those that stay: with rows of others beside them, which a compaction makes obsolete, or in a
    partition that is not to be cleaned."""
    content: str = ""
    """What lies in those that are alone, see `content_hash`."""


@dataclass(frozen=True, slots=True)
class AbortedTable:
    """A table with aborted writes, up to an id from which on nothing is final."""

    database: str
    name: str
    location: str
    write_ids: ValidWriteIds
    places: tuple[AbortedPlace, ...]

    def facts(self, catalog: str, source: str) -> Iterator[WritesAborted]:
        """What is published: a fact for each place from which something is to go."""
        for location in self.places:
            if location.alone:
                yield WritesAborted(
                    table=f"{catalog}.{self.database}.{self.name}",
                    location=self.location,
                    occurred_at=datetime.now(UTC),
                    source=source,
                    partition=location.partition,
                    valid_write_ids=str(self.write_ids),
                    content=location.content,
                )


def tables_with_aborted(
    client: MetastoreClient, transactions: ValidTxns
) -> Iterator[tuple[str, str, ValidWriteIds]]:
    """Every table with a write that aborted below all that are open: its name, and what is final.

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
    """Walk a table's directory; None where it is not ours to clean, or was created again.

    The write ids were asked for before, perhaps of a table that had this name then; so they are
    asked for once more after the walk.

    Raises:
        TransientError, OSError: the Metastore or the store did not answer.
        FormatError: a directory's name is not one of Hive's.
        NotFound, ConfinementError: its directory is not there, or is reached by a link.
    """
    try:
        table = client.table(database, name)
    except MissingInMetastoreError:
        return None
    if not table.is_acid or has_no_cleanup(table.parameters):
        return None
    location = normalise(table.location)
    spared = _spared(location, client.partitions(database, name))
    found = list(_places(storage, location, "", write_ids))
    if not _is_same(database, name, write_ids, client):
        return None
    places = tuple(_kept(each) if each.partition in spared else each for each in found)
    return AbortedTable(database, name, location, write_ids, places)


def _is_same(database: str, name: str, write_ids: ValidWriteIds, client: MetastoreClient) -> bool:
    """Whether it is still the table of these write ids: another of its name would have others."""
    now = client.write_ids(database, name, client.transactions().valid())
    final = write_ids_of_compaction(now, write_ids.high_water_mark)
    return final.aborted == write_ids.aborted and not final.has_open


def _spared(location: str, partitions: Iterable[Table]) -> frozenset[str]:
    """The partitions that their properties keep from being cleaned, as paths below the table.

    Raises:
        ConfinementError: one is not below its table, so that a walk of the table does not meet it.
    """
    spared: set[str] = set()
    for partition in partitions:
        where = normalise(partition.location)
        if not is_below(where, location):
            raise ConfinementError(f"a partition is not in its table's directory, but in {where}")
        if has_no_cleanup(partition.parameters):
            spared.add(where.removeprefix(location).strip("/"))
    return frozenset(spared)


def _kept(place: AbortedPlace) -> AbortedPlace:
    return AbortedPlace(place.partition, (), (*place.alone, *place.mixed))


def forget(table: AbortedTable, waiting: Iterable[Compaction], queue: CompactionQueue) -> None:
    """Let the Metastore forget a table's aborted writes; nothing of them may be left.

    Args:
        table: The table, with no place at all.
        waiting: The Metastore's queue; its own entries for this are ended too.
        queue: Marks it.

    Raises:
        TransientError, MetastoreRefusedError: as the Metastore says.
        ValueError: something is left.
    """
    if table.places:
        raise ValueError("something of an aborted write is left")
    highest = table.write_ids.high_water_mark
    queue.mark_aborted_cleaned(table.database, table.name, highest)
    for each in waiting:
        if each.type == ABORT_CLEAN_UP and (each.database, each.table) == (
            table.database,
            table.name,
        ):
            queue.mark_aborted_cleaned(table.database, table.name, highest, each.compaction_id)


def _places(
    storage: Storage, location: str, below: str, write_ids: ValidWriteIds
) -> Iterator[AbortedPlace]:
    if below.count("/") > _DEEPEST:
        raise NotFound(f"directories are nested too deeply in {location}")
    where = join(location, below) if below else location
    entries = storage.list(where)
    for entry in entries:
        if entry.is_dir and not entry.name.startswith((".", "_")) and not is_acid_name(entry.name):
            inner = f"{below}/{entry.name}" if below else entry.name
            yield from _places(storage, location, inner, write_ids)
    place = judged(below or None, acid_names(entries), write_ids)
    if place.alone or place.mixed:
        yield replace(place, content=_content(storage, where, place.alone))


def _content(storage: Storage, where: str, names: Iterable[str]) -> str:
    files = {name: storage.walk(join(where, name)) for name in names}
    return content_hash(
        {
            name: [(each.name, each.size, each.modified_ms) for each in found]
            for name, found in files.items()
        }
    )


def judged(partition: str | None, names: Iterable[str], write_ids: ValidWriteIds) -> AbortedPlace:
    """Which of a directory's ACID directories hold aborted rows. Pure.

    Raises:
        FormatError: a name is not one of Hive's.
    """
    found = [FoundDirectory.named(name) for name in names]
    aborted = [each for each in found if holds_aborted(each, write_ids)]
    alone = tuple(each.name for each in aborted if _is_alone(each, write_ids))
    mixed = tuple(each.name for each in aborted if each.name not in alone)
    return AbortedPlace(partition, alone, mixed)


def _is_alone(found: FoundDirectory, write_ids: ValidWriteIds) -> bool:
    acid = found.acid
    first = acid.write_id if isinstance(acid, Base) else acid.min_write_id
    if acid.max_write_id > write_ids.high_water_mark:
        return False
    return write_ids.aborted_in(first, acid.max_write_id) is RangeResponse.ALL
