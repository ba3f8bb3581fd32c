"""Read the holds of a vacuum from the Metastore when it is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import ConfigError
from tidegate.events import LockHold, table_identity
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings


def holds_of(fields: Mapping[str, Any], metastore: MetastoreSettings | str) -> dict[str, Any]:
    """The Metastore's holds of a vacuum, in addition to those of the caller."""
    settings = MetastoreSettings(uri=metastore) if isinstance(metastore, str) else metastore
    catalog, database, table = table_identity(fields["table"]).split(".")
    if catalog != settings.catalog.lower():
        raise ConfigError(
            f"{fields['table']} is not in the Metastore's catalog {settings.catalog}: its bridge"
            " would never release it"
        )
    with MetastoreClient(settings) as client:
        holding, opened = client.holds(database, table, fields["partition"])
    known = [LockHold.model_validate(field) for field in fields["locks"]]
    locks = {lock.lock_id: lock for lock in (*known, *holding)}
    locks.setdefault(fields["own_lock_id"], LockHold(lock_id=fields["own_lock_id"]))
    transactions = {*fields["open_transactions"], *opened}
    return {"locks": tuple(locks.values()), "open_transactions": tuple(sorted(transactions))}
