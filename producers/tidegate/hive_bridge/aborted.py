"""Find what aborted writes left, and let the Metastore forget them once nothing is left.

Hive's own Cleaner does it; where that is off, nobody else does, unless the table is compacted. The
whole directory of a table is walked: a write with dynamic partitions that aborted early has left
directories of partitions that the Metastore has never heard of (HIVE-21052). Where the walk can't
see all that a reader may see, it refuses: forgetting an abort makes its rows visible.
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
        NotFound, ConfinementError: its directory is not there, or one in it is reached by a link.
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
    places = tuple(_kept(place) if place.partition in spared else place for place in found)
    return AbortedTable(database, name, location, write_ids, places)


def _is_same(database: str, name: str, write_ids: ValidWriteIds, client: MetastoreClient) -> bool:
    """Whether it is still the table of these write ids: another of its name would have others."""
    now = client.write_ids(database, name, client.transactions().valid())
    final = write_ids_of_compaction(now, write_ids.high_water_mark)
    return final.aborted == write_ids.aborted and not final.has_open


def _registered(location: str, partitions: Iterable[Table]) -> dict[str, Table]:
    """The partitions that the Metastore has, by their paths below the table.

    Raises:
        ConfinementError: one is not below its table, so that a walk of the table does not meet it.
    """
    found: dict[str, Table] = {}
    for partition in partitions:
        where = normalise(partition.location)
        if not is_below(where, location):
            raise ConfinementError(f"a partition is not in its table's directory, but in {where}")
        found[where.removeprefix(location).strip("/")] = partition
    return found


def _with_parents(paths: Iterable[str]) -> frozenset[str]:
    """Paths, and those of all directories above them."""
    return frozenset(path[: end.start()] for path in paths for end in re.finditer(r"/|$", path))


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


@dataclass(slots=True)
class _Walk:
    """A walk of a table's directory: `places`, to its end, and then `check_listed`."""

    storage: Storage
    location: str
    write_ids: ValidWriteIds
    registered: frozenset[str]
    """The paths of registered partitions, and of the directories above them."""
    _listed: set[str] = field(default_factory=set[str])

    def places(self, below: str = "") -> Iterator[AbortedPlace]:
        """The places with aborted rows, of the table or of a directory below it.

        Raises:
            ConfinementError: there is a link, which readers follow and this walk does not.
            NotFound, FormatError: as `look_at_table`.
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
                raise ConfinementError(f"{entry.path} is a symbolic link: its target is not walked")
            if entry.is_dir:
                yield from self.places(inner)
        names = acid_names(entries)
        compacted = compacted_bases(self.storage, where, names)
        place = judged(below or None, names, self.write_ids, compacted)
        if place.alone or place.mixed:
            yield replace(place, content=_content(self.storage, where, place.alone))

    def check_listed(self, registered: Iterable[str]) -> None:
        """Check that the walk has met every registered partition; one may have no directory.

        Raises:
            ConfinementError: one was not met, though its directory can be listed.
        """
        for path in registered:
            if path in self._listed:
                continue
            where = join(self.location, path)
            try:
                self.storage.list(where)
            except NotFound:
                continue
            raise ConfinementError(f"the partition in {where} is not met by a walk of its table")

    def _is_hidden(self, path: str, name: str) -> bool:
        """Whether no reader lists it: it is hidden, and not the directory of a partition.

        A column's name may begin with an underscore, and so the name of its partitions' directory.
        """
        return name.startswith((".", "_")) and "=" not in name and path not in self.registered


def _content(storage: Storage, where: str, names: Iterable[str]) -> str:
    files = {name: storage.walk(join(where, name)) for name in names}
    return content_hash(
        {
            name: [(each.name, each.size, each.modified_ms) for each in found]
            for name, found in files.items()
        }
    )


def judged(
    partition: str | None,
    names: Iterable[str],
    write_ids: ValidWriteIds,
    compacted: Collection[str] = (),
) -> AbortedPlace:
    """Which of a directory's ACID directories hold aborted rows. Pure.

    Args:
        partition: The directory's partition.
        names: The names in it.
        write_ids: What is final of the table.
        compacted: Those of the names that `compacted_bases` found.

    Raises:
        FormatError: a name is not one of Hive's.
    """
    found = [FoundDirectory.named(name, compacted=name in compacted) for name in names]
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
