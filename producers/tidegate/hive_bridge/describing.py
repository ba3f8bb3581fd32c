"""Look up the fields of a VacuumFinished in the Metastore and in the table's directory."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from tidegate.errors import ConfinementError, FormatError, MetastoreRefusedError, TidegateError
from tidegate.events import VacuumKind
from tidegate.hive import AcidDirectory, Base, FoundDirectory, NotEnoughHistory
from tidegate.hive_bridge.cleanup_properties import NotYet, check_wanted
from tidegate.hive_bridge.listed import acid_names, compacted_bases
from tidegate.hive_bridge.products import (
    Description,
    present_of,
    products_of,
    products_of_hive_3,
    write_id_range,
)
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import Compaction, Table, write_ids_of_compaction
from tidegate.storage import NotFound, Storage, join, normalise

_WORKING: Final = "working"
_SOON_SECONDS: Final = 2.0


class NotDescribed(TidegateError):  # noqa: N818 - expected, not a fault
    """A compaction that can't be published. The catcher logs the reason once and skips it."""


def describe(compaction: Compaction, client: MetastoreClient, storage: Storage) -> Description:
    """Look a compaction up.

    Raises:
        NotDescribed: its table was dropped or is not ACID, its partition is outside the table's
            directory, or the directories that it made are not there.
        NotYet: its table's properties forbid the cleaning now.
        TransientError: the Metastore or the store did not answer.
    """
    try:
        return _describe(compaction, client, storage)
    except (
        MetastoreRefusedError,
        NotFound,
        FormatError,
        ConfinementError,
        NotEnoughHistory,
    ) as error:
        raise NotDescribed(f"{type(error).__name__}: {error}") from error


def _describe(compaction: Compaction, client: MetastoreClient, storage: Storage) -> Description:
    database, name = compaction.database, compaction.table
    table = client.table(database, name)
    if not table.is_acid:
        raise NotDescribed("the table is not transactional in the Metastore")
    location = normalise(table.location)
    partition = _partition(compaction, client)
    check_wanted(compaction, table, partition, client.setting, round(time.time() * 1000))
    where = _directory(compaction, location, partition)
    products, kind = _products(compaction, where, client, storage), compaction.kind
    if not products and not compaction.is_of_hive_3:
        products = _present(compaction, where, client, storage)
        is_base = any(isinstance(product, Base) for product in products)
        kind = VacuumKind.MAJOR if is_base else VacuumKind.MINOR
    if kind is None or (not products and compaction.is_of_hive_3):
        raise NotDescribed(f"{where} has no directory that it made")
    first, last = write_id_range(products) if products else (0, compaction.highest_write_id)
    if compaction.is_of_hive_3:
        compaction = replace(compaction, highest_write_id=last)
    if last > compaction.highest_write_id:
        raise NotDescribed(
            f"it made {', '.join(product.name for product in products)}, which exceeds its highest"
            f" write id {compaction.highest_write_id}"
        )
    valid = client.write_ids(database, name, client.transactions().valid())
    snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
    if compaction.transaction_id is None and snapshot.has_open:
        raise NotDescribed(f"{products[0].name} has open write ids: a writer made it")
    directories = tuple(sorted(product.name for product in products))
    return Description(location, directories, first, last, str(snapshot), kind)


def _present(
    compaction: Compaction, where: str, client: MetastoreClient, storage: Storage
) -> tuple[AcidDirectory, ...]:
    """What it found in place of others, where it had nothing to merge."""
    transactions = client.transactions().valid()
    valid = client.write_ids(compaction.database, compaction.table, transactions)
    snapshot = write_ids_of_compaction(valid, compaction.highest_write_id)
    names = acid_names(storage.list(where))
    compacted = compacted_bases(storage, where, names)
    found = [FoundDirectory.named(name, compacted=name in compacted) for name in names]
    return present_of(found, snapshot)


def _products(
    compaction: Compaction, where: str, client: MetastoreClient, storage: Storage
) -> tuple[AcidDirectory, ...]:
    """The directories that the compaction made, by their names.

    Hive 3 renames these directories one by one, and does not report which compaction made them. So
    no other compaction of the same place may be running.
    """
    before = _others(compaction, client) if compaction.is_of_hive_3 else {}
    names = [entry.name for entry in storage.list(where) if entry.is_dir]
    if not compaction.is_of_hive_3:
        return products_of(compaction, names)
    marked = compacted_bases(storage, where, names)
    after = _others(compaction, client)
    if before != after or _WORKING in after.values():
        raise NotYet("another compaction of the same place is running", _SOON_SECONDS)
    return products_of_hive_3(compaction, names, marked)


def _others(compaction: Compaction, client: MetastoreClient) -> dict[int, str]:
    """The states of the other compactions of the same place, by their ids."""
    return {
        other.compaction_id: other.state
        for other in client.compactions()
        if other.place == compaction.place and other.compaction_id != compaction.compaction_id
    }


def directory_of(compaction: Compaction, client: MetastoreClient, location: str) -> str:
    """The directory that was compacted: the table's `location`, or the partition's.

    Raises:
        NotDescribed: the partition is not in its table's directory.
        MissingInMetastoreError: there is no such partition.
        TransientError: the Metastore did not answer.
    """
    return _directory(compaction, location, _partition(compaction, client))


def _partition(compaction: Compaction, client: MetastoreClient) -> Table | None:
    if compaction.partition is None:
        return None
    return client.partition(compaction.database, compaction.table, compaction.partition)


def _directory(compaction: Compaction, location: str, partition: Table | None) -> str:
    if partition is None or compaction.partition is None:
        return location
    found = normalise(partition.location)
    if found != join(location, compaction.partition):
        raise NotDescribed(
            f"the partition is not in its table's directory {location}, but in {found}"
        )
    return found
