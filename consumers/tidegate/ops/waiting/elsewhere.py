"""Finds transactions that vacuums wait for and that have locked other tables only."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import MetastoreRefusedError, TransientError
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import HeldTables


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The locks of a Metastore at one moment."""

    catalog: str
    held: HeldTables
    fault: str = ""
    """The reason why the Metastore did not answer; there are no locks then."""

    @classmethod
    def asked(cls, watched: BridgeSettings | None) -> Elsewhere:
        """Ask for the locks; without a configured Metastore there are none."""
        if watched is None or watched.readers_lock_at_once:  # else they are not waited for
            return cls("", HeldTables(()))
        try:
            with MetastoreClient(watched) as client:
                return cls(watched.catalog.lower(), HeldTables(client.locks()))
        except (TransientError, MetastoreRefusedError) as error:
            return cls("", HeldTables(()), str(error))

    def note(self, table: str, transaction: int | None) -> str:
        """The note behind a transaction that a table's vacuum waits for; may be empty."""
        catalog, _, name = table.partition(".")
        if transaction is None or catalog != self.catalog:
            return ""
        if not self.held.is_elsewhere(transaction, *name.split(".", 1)):
            return ""
        return (
            ": it has locked other tables only. If its engine takes a table's snapshot after its"
            " lock, as Hive and Trino do, readers_lock_at_once in [bridge.metastore] lets the"
            " vacuum go"
        )
