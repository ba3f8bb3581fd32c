"""Find the directories of a table's aborted writes; let the Metastore forget what left none.

The walk covers the table's complete directory, because an aborted write with dynamic partitions may
have left directories of partitions that the Metastore does not know (HIVE-21052). If the walk can't
see everything that a reader may see, it refuses: forgetting an abort makes its rows visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tidegate.errors import ConfinementError, MissingInMetastoreError
from tidegate.events import WritesAborted
from tidegate.hive.content import content_hash
from tidegate.hive.names import is_acid_name
from tidegate.hive.obsolete import FoundDirectory, aborted_rows
from tidegate.hive.write_ids import RangeResponse, ValidTxns, ValidWriteIds
from tidegate.hive_bridge.describing import acid_directories, has_no_cleanup
from tidegate.hive_bridge.products import is_of_failed_compaction
from tidegate.hive_bridge.settings import SOURCE
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


class _AbortedPlace(NamedTuple):
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


def tables_with_aborted(
    client: MetastoreClient, transactions: ValidTxns
) -> Iterator[ValidWriteIds]:
    """The final write ids of the tables with an aborted write whose id is below every open one.

    Raises:
        TransientError: the Metastore did not answer.
    """
    tables = client.tables()
    for start in range(0, len(tables), _TABLES_A_CALL):
        names = [f"{database}.{name}" for database, name in tables[start : start + _TABLES_A_CALL]]
        for found in client.all_write_ids(names, transactions):
            final = final_write_ids(found)
            if final.aborted.firsts:
                yield final


def look_at_table(
    catalog: str, write_ids: ValidWriteIds, client: MetastoreClient, storage: Storage
) -> tuple[list[WritesAborted], list[str]] | None:
    """Walk a table's directory.

    The caller fetched the write ids earlier, perhaps of another table that had this name then. So
    this fetches them once more after the walk.

    Returns:
        The events about directories that can be removed, and the names of those that stay; or None
        if the table is not ACID, was dropped or created again, or must not be cleaned; or if
        nothing is left, but a compaction may have written since the walk, and aborted.

    Raises:
        TransientError, OSError: the Metastore or the store did not answer.
        FormatError: a directory's name is not one of Hive's.
        NotFound, ConfinementError: its directory does not exist, or contains a link.
        ValueError: a name that no event can hold: it has a space, is too long or is not UTF-8.
    """
    database, name = _named(write_ids)
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
    places = list(walk.places())
    walk.check_listed(registered)
    if not _is_same(write_ids, client):
        return None
    # Hive 3.1.3 returns those of all tables
    compactions = () if places else client.compactions(database, name)
    if _is_compacted((c for c in compactions if c.place[:2] == (database, name)), transactions):
        return None
    spared = {path for path, found in registered.items() if has_no_cleanup(found.parameters)}
    events: list[WritesAborted] = []
    staying: list[str] = []
    for place in places:
        if place.partition in spared:
            staying += place.alone
        elif place.alone:
            events.append(
                WritesAborted(
                    table=f"{catalog}.{write_ids.table}",
                    location=location,
                    occurred_at=datetime.now(UTC),
                    source=SOURCE,
                    partition=place.partition,
                    valid_write_ids=str(write_ids),
                    content=place.content,
                )
            )
        staying += place.mixed
    return events, staying


def _named(write_ids: ValidWriteIds) -> tuple[str, str]:
    """The database, and the name of the table in it."""
    database, _, name = write_ids.table.partition(".")
    return database, name


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


def _is_same(write_ids: ValidWriteIds, client: MetastoreClient) -> bool:
    """Whether the table still has these write ids; another table of this name has other ids."""
    now = client.write_ids(*_named(write_ids), client.transactions().valid())
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


def forget(write_ids: ValidWriteIds, client: MetastoreClient) -> None:
    """Let the Metastore forget a table's aborted writes. None of their directories may be left.

    Args:
        write_ids: The table's final write ids. `look_at_table` has found nothing of them.
        client: Its Metastore, whose own entries for this clean-up are ended too.

    Raises:
        TransientError: the Metastore did not answer.
        MetastoreRefusedError: the Metastore refused the call.
    """
    database, name = _named(write_ids)
    highest, waiting = write_ids.high_water_mark, client.compactions()
    client.mark_aborted_cleaned(database, name, highest)
    for entry in waiting:
        if entry.type == ABORT_CLEAN_UP and entry.place[:2] == (database, name):
            client.mark_aborted_cleaned(database, name, highest, entry.compaction_id)


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
            yield place._replace(content=_content(self.storage, where, place.alone))

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
