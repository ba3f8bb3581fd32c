"""What Hive's Worker does to a table on a real Metastore; copies that Hive's Cleaner cleans."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.acid import COMPACTED, names_in
from support.acid_orc import AcidTable
from support.embedded_metastore import HIVE_4, EmbeddedMetastore
from support.hive_engine import REBALANCE, HiveEngine
from support.hive_judge import HiveJudge
from support.metastore import own_metastore
from support.waiting import wait_for
from tidegate.embedded.process import free_ports
from tidegate.errors import TidegateError, TransientError
from tidegate.hive.names import Base, parse_name
from tidegate.hive.obsolete import _AcidState
from tidegate.hive.write_ids import ValidTxns, ValidWriteIds
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import READY_FOR_CLEANING, write_ids_of_compaction

MINOR, MAJOR = 1, 2
COLUMNS = {"id": "int"}
_COPIES = "tidegate.copies"
_COPYING = Path(__file__).parents[1] / "reference/hive/CopyingMetastore.java"
_HIVES_CLEANER = {
    "metastore.compactor.cleaner.on": "true",
    "hive.compactor.cleaner.run.interval": "200ms",
    "hive.compactor.aborted.txn.time.threshold": "1ms",
}
Snapshot = tuple[ValidWriteIds, ValidTxns]


class Engine(HiveEngine):
    """Calls again if Derby ended a deadlock by undoing the call: Hive 4 does not."""

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - Thrift's types
        try:
            return super().call(name, *arguments)
        except TransientError as error:
            if "Internal error" not in str(error):
                raise
            return super().call(name, *arguments)


class WorkedTable:
    """A table of real files, which a Worker compacts."""

    def __init__(
        self, engine: Engine, judge: HiveJudge, db: str, name: str, location: Path
    ) -> None:
        self.engine, self.judge, self.db, self.name = engine, judge, db, name
        self.table = AcidTable(location, COLUMNS)
        self.open: list[int] = []
        """Write ids of open transactions."""
        self.aborted: set[int] = set()
        """Write ids."""
        self.failed: set[int] = set()
        """Transactions of compactions whose Worker died."""

    def snapshot(self) -> Snapshot:
        with MetastoreClient(self.engine.settings) as client:
            transactions = client.transaction_states().valid()
            return client.write_ids(self.db, self.name, transactions), transactions

    def state(self, snapshot: Snapshot, *, as_cleaner: bool) -> _AcidState:
        found = self.judge.ask(self.table.location, *snapshot, as_cleaner=as_cleaner)
        assert isinstance(found, _AcidState), found
        return found

    def rows(self, snapshot: Snapshot) -> list[str]:
        return self.judge.rows(self.table.location, snapshot[0], COLUMNS, snapshot[1])

    def compact(
        self, kind: int, *, dies: bool = False, before_its_end: Callable[[], None] = lambda: None
    ) -> bool:
        """As Hive's Worker: it merges what readers read, or queues an entry without a product.

        Returns:
            False if the Metastore refused it, because an earlier one is not marked as cleaned.
        """
        now = self.snapshot()
        highest = min([now[0].high_water_mark, *(write_id - 1 for write_id in self.open)])
        while highest in self.aborted:  # once it is forgotten, no snapshot reaches up to it
            highest -= 1
        if highest < 1:
            return True
        ids = write_ids_of_compaction(now[0], highest)
        state = self.state((ids, now[1]), as_cleaner=False)
        try:
            info, txn = self.engine.compaction(self.db, self.name, highest, kind=kind)
        except TidegateError:
            return False
        if txn and dies:
            txn = self._die(info, kind, ids, state, txn)
        self._merge(kind, ids, state, txn)
        before_its_end()
        self.engine.finish_compaction(info, txn)
        return True

    def _die(self, info: object, kind: int, ids: ValidWriteIds, state: _AcidState, txn: int) -> int:
        """The Worker dies with half of a product; another one takes the entry, with a new id."""
        before = set(names_in(self.table.location))
        self._merge(kind, ids, state, txn)
        for name in set(names_in(self.table.location)) - before:
            for bucket in (self.table.location / name).glob("bucket_*"):
                bucket.unlink()
        self.engine.abort(txn)
        if kind != REBALANCE:  # what its lock left has no write id: Hive 4 never forgets it
            self.failed.add(txn)
        again = self.engine.compaction_txn(kind, "worker-2")
        self.engine.call("update_compactor_state", info, again)
        if kind == REBALANCE:
            self.engine.lock_for_rebalance(self.db, self.name, again)
        return again

    def _merge(self, kind: int, ids: ValidWriteIds, state: _AcidState, txn: int) -> None:
        """Write its product, unless there is nothing to merge."""
        found = [parse_name(name) for name in state.current]
        ranges = {(delta.min_write_id, delta.max_write_id) for delta in found}
        low = min((low for low, _ in ranges), default=0)
        high = max((high for _, high in ranges), default=0)
        if kind == MINOR:
            # a delta and a delete delta are not enough for Hive (isEnoughToCompact); without a
            # suffix, the product of one range could have the name of an input
            deletes = sum(name.startswith("delete_delta_") for name in state.current)
            both_kinds = (len(found), deletes) == (2, 1)
            if len(found) > 1 and not both_kinds and (txn or len(ranges) > 1):
                self.table.compact_minor(low, high, ids, txn or None)
            return
        if kind == REBALANCE:  # anything is enough for it, one base too
            rows = sorted(self.table._rows(ids))
            moved = [row._replace(row_id=number) for number, row in enumerate(rows)]
            self.table._write(Base(ids.high_water_mark, txn), moved)
            return
        base = self.table.location / f"base_{ids.high_water_mark:07}"
        if found and len(found) + bool(state.base) > 1 and (txn or not base.exists()):
            self.table.compact_major(ids, txn or None)
            if not txn:
                (base / "_metadata_acid").write_bytes(COMPACTED)


def copying_metastore(folder: Path, settings: dict[str, str]) -> EmbeddedMetastore:
    """A Metastore of Hive 4 that is not started yet, and can copy its database while it runs."""
    settings |= {_COPIES: str(free_ports()[0])}
    return own_metastore(folder, settings, version=replace(HIVE_4, main=str(_COPYING)))


class Copies:
    """Copies of tables and of their Metastore, which Hive's own Cleaner cleans."""

    def __init__(self, tables: Sequence[WorkedTable], folder: Path) -> None:
        original = tables[0].engine.metastore
        folder.mkdir()
        port = int(original.settings[_COPIES])
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            connection.sendall(f"{folder}\t{original.warehouse}\n".encode())
            assert connection.makefile().readline() == "copied\n"
        shutil.copytree(original.warehouse, folder / "warehouse")
        self.metastore = own_metastore(folder, {**original.settings, **_HIVES_CLEANER})
        self.metastore.start()
        self.engine = Engine(self.metastore)
        self.tables = []
        for table in tables:
            where = self.metastore.warehouse / table.table.location.relative_to(original.warehouse)
            copy = WorkedTable(self.engine, table.judge, table.db, table.name, where)
            copy.aborted = table.aborted
            self.tables.append(copy)

    def compact_twice(self) -> None:
        """Give every table two major compactions, each once the Cleaner has nothing to do."""
        self._wait()
        for _ in range(2):
            for table in self.tables:
                assert table.compact(MAJOR), f"Hive's Cleaner left an entry of {table.name}"
            self._wait()

    def close(self) -> None:
        self.engine.close()
        self.metastore.stop()
        shutil.rmtree(self.metastore.folder)

    def _wait(self) -> None:
        def is_idle() -> bool:
            with MetastoreClient(self.engine.settings) as client:
                return all(entry.state != READY_FOR_CLEANING for entry in client.compactions())

        wait_for("Hive's Cleaner to clean every compaction", is_idle)


def what_is_left(table: WorkedTable) -> list[str]:
    """Its directories, hidden ones excepted, without the transactions of compactions."""
    names = names_in(table.table.location)
    return [re.sub(r"_v\d+$", "_v", name) for name in names if name[0] not in "._"]
