"""Look up the fields of a VacuumFinished in the Metastore and in the table's directory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from tidegate.errors import ConfinementError, FormatError, MetastoreRefusedError, TidegateError
from tidegate.events import VacuumKind
from tidegate.hive.names import AcidDirectory, Base, is_acid_name
from tidegate.hive.obsolete import (
    DATA_FORMAT_FILE,
    DATA_FORMAT_LIMIT,
    FoundDirectory,
    NotEnoughHistory,
    is_of_compaction,
)
from tidegate.hive_bridge.products import (
    VacuumFields,
    present_of,
    products_of,
    products_of_hive_3,
    write_id_range,
)
from tidegate.hive_bridge.settings import milliseconds
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import WORKING, QueueEntry, Table, write_ids_of_compaction
from tidegate.storage import FileInfo, NotFound, Storage, join, normalise

_PLAIN_BASE: Final = re.compile("base_[0-9]+")
_NO_CLEANUP: Final = "no_cleanup"
_DELAYED: Final = "hive.compactor.delayed.cleanup.enabled"
_RETENTION: Final = "hive.compactor.cleaner.retention.time.seconds"
_USUAL_RETENTION: Final = "300s"
_PREFIX: Final = "compactor."
"""Hive's prefix for a table's property that overrides a setting."""
_AGAIN_SECONDS: Final = 60.0
_SOON_SECONDS: Final = 2.0


def acid_directories(
    storage: Storage, where: str, entries: Iterable[FileInfo]
) -> list[FoundDirectory]:
    """The entries of a directory that are named as ACID directories; links are included.

    Object stores' directory markers are left out. They are files next to the directories, carry no
    information of their own, and may remain after a directory is removed.

    Raises:
        FormatError: a name, or the metadata file in a base, is not Hive's.
        TransientError, OSError: the store did not answer.
    """
    names = [
        entry.name for entry in entries if is_acid_name(entry.name) and not entry.marks_directory
    ]
    compacted = compacted_bases(storage, where, names)
    return [FoundDirectory.named(name, compacted=name in compacted) for name in names]


def compacted_bases(storage: Storage, where: str, names: Iterable[str]) -> frozenset[str]:
    """The bases that a compaction wrote, without a transaction id in their names.

    Raises:
        FormatError: the metadata file in a base is not Hive's.
        TransientError, OSError: the store did not answer.
    """
    plain = (name for name in names if _PLAIN_BASE.fullmatch(name))
    return frozenset(name for name in plain if _is_compacted(storage, join(where, name)))


def _is_compacted(storage: Storage, base: str) -> bool:
    try:
        return is_of_compaction(storage.read(join(base, DATA_FORMAT_FILE), DATA_FORMAT_LIMIT))
    except NotFound:
        return False


NOT_DESCRIBED: Final = (
    MetastoreRefusedError,
    NotFound,
    FormatError,
    ConfinementError,
    NotEnoughHistory,
)
"""The errors of a compaction that can't be published."""


class NotYet(TidegateError):  # noqa: N818 - expected, not a fault
    """A compaction that must not be cleaned now. The catcher tries again after `seconds`."""

    def __init__(self, message: str, seconds: float = _AGAIN_SECONDS) -> None:
        """Take the reason, and the seconds until the next try."""
        super().__init__(message)
        self.seconds = seconds


def check_wanted(
    compaction: QueueEntry,
    table: Table,
    partition: Table | None,
    setting: Callable[[str], str | None],
    now_ms: int,
) -> None:
    """Check whether Hive's own properties allow to clean a compaction now.

    `NO_CLEANUP` = true on the table or the partition forbids it. Hive's delayed cleaning
    (`hive.compactor.delayed.cleanup.enabled`) forbids it until the retention time has passed. The
    retention's two settings may stand in the Metastore's settings or in the table's properties,
    there with or without the prefix `compactor.`. The table's property wins.

    Args:
        compaction: The compaction.
        table: Its table.
        partition: Its partition, or None for the whole table.
        setting: Returns a setting of the Metastore.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        NotYet: the compaction must not be cleaned now.
    """
    for place, kind in ((table, "table"), (partition, "partition")):
        if place is not None and has_no_cleanup(place.parameters):
            raise NotYet(f"its {kind} has the property NO_CLEANUP: remove it to allow the cleaning")

    def value(name: str) -> str | None:
        own = _lower(table.parameters)
        return own.get(_PREFIX + name) or own.get(name) or setting(name)

    if not _is_true(value(_DELAYED)) or not compaction.committed_ms:
        return
    text = value(_RETENTION) or _USUAL_RETENTION
    try:
        # a plain number is in seconds here, see the setting's name
        retention = milliseconds(f"{text}s" if text.strip().isdecimal() else text)
    except ValueError as error:
        raise NotYet(f"{_RETENTION} is not a duration: {text!r}") from error
    left = compaction.committed_ms + int(str(retention)) - now_ms
    if left > 0:
        raise NotYet(f"Hive's delayed cleaning is on: its retention time is {text}", left / 1000)


def has_no_cleanup(parameters: Mapping[str, str]) -> bool:
    """Whether the properties of a table or partition forbid its cleaning."""
    return _is_true(_lower(parameters).get(_NO_CLEANUP))


def _lower(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in parameters.items()}


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"


def describe(compaction: QueueEntry, client: MetastoreClient, storage: Storage) -> VacuumFields:
    """Look a compaction up.

    Raises:
        NOT_DESCRIBED: its table was dropped or is not ACID, its partition is outside the table's
            directory, or the directories that it made are not there.
        NotYet: its table's properties forbid the cleaning now.
        TransientError: the Metastore or the store did not answer.
    """
    database, name = compaction.database, compaction.table
    table = client.table(database, name)
    if not table.is_acid:
        raise FormatError("the table is not transactional in the Metastore")
    location = normalise(table.location)
    partition = _partition(compaction, client)
    check_wanted(compaction, table, partition, client.setting, round(time.time() * 1000))
    where = _directory(compaction, location, partition)
    entries, products = _products(compaction, where, client, storage)
    # after the listing: in Hive 3 a writer's directory is known by its open write ids
    transactions = client.transactions().valid()
    valid = client.write_ids(database, name, transactions)
    kind = compaction.kind
    if not products and not compaction.is_of_hive_3:  # it had nothing to merge
        snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
        # a later compaction's directories have a vacuum of their own, with other readers
        own = compaction.transaction_id or transactions.high_water_mark
        then = replace(transactions, high_water_mark=min(own, transactions.high_water_mark))
        products = present_of(acid_directories(storage, where, entries), snapshot, then)
        is_base = any(isinstance(product, Base) for product in products)
        kind = VacuumKind.MAJOR if is_base else VacuumKind.MINOR
    if kind is None or (not products and compaction.is_of_hive_3):
        raise FormatError(f"{where} has no directory that it made")
    first, last = write_id_range(products) if products else (0, compaction.highest_write_id)
    if compaction.is_of_hive_3:
        compaction = replace(compaction, highest_write_id=last)
    if last > compaction.highest_write_id:
        raise FormatError(
            f"it made {', '.join(product.name for product in products)}, which exceeds its highest"
            f" write id {compaction.highest_write_id}"
        )
    snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
    if compaction.transaction_id is None and snapshot.has_open:
        raise FormatError(f"{products[0].name} has open write ids: a writer made it")
    directories = tuple(sorted(product.name for product in products))
    return VacuumFields(location, directories, first, last, str(snapshot), kind)


def _products(
    compaction: QueueEntry, where: str, client: MetastoreClient, storage: Storage
) -> tuple[list[FileInfo], tuple[AcidDirectory, ...]]:
    """List the directory, and find the directories that the compaction made, by their names.

    Hive 3 renames these directories one by one, and does not report which compaction made them. So
    no other compaction of the same place may be running.
    """
    before = _others(compaction, client) if compaction.is_of_hive_3 else {}
    entries = storage.list(where)
    names = [entry.name for entry in entries if entry.is_dir]
    if not compaction.is_of_hive_3:
        return entries, products_of(compaction, names)
    marked = compacted_bases(storage, where, names)
    after = _others(compaction, client)
    if before != after or WORKING in after.values():
        raise NotYet("another compaction of the same place is running", _SOON_SECONDS)
    return entries, products_of_hive_3(compaction, names, marked)


def _others(compaction: QueueEntry, client: MetastoreClient) -> dict[int, str]:
    """The states of the other compactions of the same place, by their ids."""
    return {
        other.compaction_id: other.state
        for other in client.compactions()
        if other.place == compaction.place and other.compaction_id != compaction.compaction_id
    }


def directory_of(compaction: QueueEntry, client: MetastoreClient, location: str) -> str:
    """The directory that was compacted: the table's `location`, or the partition's.

    Raises:
        FormatError: the partition is not in its table's directory.
        MissingInMetastoreError: there is no such partition.
        TransientError: the Metastore did not answer.
    """
    return _directory(compaction, location, _partition(compaction, client))


def _partition(compaction: QueueEntry, client: MetastoreClient) -> Table | None:
    if compaction.partition is None:
        return None
    return client.partition(compaction.database, compaction.table, compaction.partition)


def _directory(compaction: QueueEntry, location: str, partition: Table | None) -> str:
    if partition is None or compaction.partition is None:
        return location
    found = normalise(partition.location)
    if found != join(location, compaction.partition):
        raise FormatError(
            f"the partition is not in its table's directory {location}, but in {found}"
        )
    return found
