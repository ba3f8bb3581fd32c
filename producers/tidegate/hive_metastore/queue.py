"""The Metastore's queue of compactions: say that one has been cleaned."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from tidegate.events import VacuumKind
from tidegate.hive_metastore.connection import Connection, load
from tidegate.hive_metastore.settings import MetastoreSettings
from tidegate.hive_metastore.values import ABORT_CLEAN_UP, QueueEntry

_FILE: Final = Path(__file__).with_name("queue.thrift")
_TYPES: Final = {VacuumKind.MINOR: 1, VacuumKind.MAJOR: 2}


@cache
def _interface() -> Any:  # noqa: ANN401 - a module that thriftpy2 makes of the .thrift file
    return load(_FILE, "tidegate_metastore_queue_thrift")


class CompactionQueue(Connection):
    """One connection to a Metastore that marks cleaned compactions. Raises as MetastoreClient.

    A mark has two effects: the compaction is "succeeded" in SHOW COMPACTIONS, and the Metastore
    forgets the aborted writes of the table or partition up to its highest write id. The caller must
    have checked that no directory of those writes is left.
    """

    def __init__(
        self, settings: MetastoreSettings, called: Callable[[str], object] | None = None
    ) -> None:
        """Take the settings, and a callback for every call, without connecting.

        Raises:
            ConfigError: a library is missing that the settings need.
        """
        super().__init__(settings, called, _interface().CompactionQueue)

    def mark_cleaned(self, compaction: QueueEntry) -> None:
        """The compaction's cleaning is done. Marked twice is marked once."""
        kind = _TYPES[compaction.kind or VacuumKind.MINOR]
        self._mark(
            compaction.compaction_id,
            (compaction.database, compaction.table, compaction.partition),
            kind,
            compaction.highest_write_id,
        )

    def mark_aborted_cleaned(
        self, database: str, table: str, highest_write_id: int, entry: int = 0
    ) -> None:
        """No directory of a table holds a row of an aborted write up to this id.

        `entry` is the Metastore's own entry for it in the queue, where there is one.
        """
        self._mark(entry, (database, table, None), ABORT_CLEAN_UP, highest_write_id)

    def _mark(
        self, entry: int, place: tuple[str, str, str | None], kind: int, highest: int
    ) -> None:
        database, table, partition = place
        info = _interface().CompactionInfoStruct(
            id=entry,
            dbname=database,
            tablename=table,
            partitionname=partition,
            type=kind,
            highestWriteId=highest,
        )
        self.call("mark_cleaned", info)
