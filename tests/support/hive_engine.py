"""What Hive, openLooKeng and their compactors ask of a Metastore, call by call."""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tidegate.hive_metastore
from support.embedded_metastore import HIVE_3, EmbeddedMetastore
from support.waiting import wait_for
from tidegate.errors import TidegateError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings

SHARED_READ, SHARED_WRITE, EXCLUSIVE, _EXCLUSIVE_WRITE = 1, 2, 3, 4
_DATABASE_LEVEL, _TABLE_LEVEL, _PARTITION_LEVEL = 1, 2, 3
_SELECT, _INSERT, _UPDATE, _NO_TXN = 1, 2, 3, 6
_COMPACTION = 3
"""A type of transaction: its commit makes the compaction visible."""
REBALANCE = 3
"""A kind of compaction, of Hive 4 only."""
_REBALANCE = 6
"""Its type of transaction."""
WORKER = "tidegate.worker"
"""The setting with the port of the Worker in a Metastore of Hive 3."""
_READER = ("ana", "client-1")
_COLUMNS = {"id": "int"}
_WRITE_CAPABILITIES = [
    "HIVEFULLACIDWRITE",
    "HIVEFULLACIDREAD",
    "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGEDINSERTREAD",
]


@cache
def _interface() -> Any:  # noqa: ANN401 - Thrift's types
    import thriftpy2  # noqa: PLC0415 - an extra

    file = Path(__file__).with_suffix(".thrift")
    included = Path(tidegate.hive_metastore.__file__).parent
    return thriftpy2.load(
        str(file), module_name="hive_engine_thrift", include_dirs=[str(file.parent), str(included)]
    )


class HiveEngine:
    """One engine at work on a Metastore. Close it at the end.

    Every call may raise what `Connection.call` raises.
    """

    def __init__(self, metastore: EmbeddedMetastore) -> None:
        """Connect to nothing yet."""
        self.metastore = metastore
        self.is_hive_3 = metastore.version == HIVE_3
        # Derby takes its time to end a deadlock of two calls
        self.settings = MetastoreSettings(uri=metastore.uri, timeout_ms=60_000)
        self.types = _interface()
        self._connection = MetastoreClient(self.settings, service=self.types.WriteMetastore)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - Thrift's types
        """Make one call of Hive's own interface."""
        return self._connection.call(name, *arguments)

    def table(
        self,
        database: str,
        name: str = "orders",
        partitioned_by: Sequence[str] = (),
        columns: Mapping[str, str] = _COLUMNS,
        *,
        acid: bool = True,
    ) -> Path:
        """Make a table; where its directory is. `columns` maps names to Hive's types."""
        self.create(self.described(database, name, partitioned_by, columns, acid=acid))
        with MetastoreClient(self.settings) as client:
            location = client.table(database, name).location
        return Path(location.removeprefix("file:"))

    def create(self, described: Any) -> None:  # noqa: ANN401 - Thrift's types
        """Make a table of a description."""
        if self.is_hive_3:
            self.call("create_table", described)
        else:
            request = self.types.CreateTableRequest(described, _WRITE_CAPABILITIES, "test")
            self.call("create_table_req", request)

    def described(
        self,
        database: str,
        name: str,
        partitioned_by: Sequence[str] = (),
        columns: Mapping[str, str] = _COLUMNS,
        *,
        acid: bool = True,
    ) -> Any:  # noqa: ANN401 - Thrift's types
        """The Metastore's own description of a table of ORC files."""
        types, storage = self.types, self._storage(name, columns)
        keys = [types.FieldSchema(column, "string", "") for column in partitioned_by]
        kind = "MANAGED_TABLE" if acid else "EXTERNAL_TABLE"
        parameters = {"transactional": "true"} if acid else {"EXTERNAL": "TRUE"}
        return types.Table(name, database, "test", 0, 0, 0, storage, keys, parameters, kind)

    def _storage(self, table: str, columns: Mapping[str, str], location: str | None = None) -> Any:  # noqa: ANN401 - Thrift's types
        """Of ORC files."""
        types = self.types
        return types.StorageDescriptor(
            [types.FieldSchema(column, kind, "") for column, kind in columns.items()],
            location,
            "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
            "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=types.SerDeInfo(table, "org.apache.hadoop.hive.ql.io.orc.OrcSerde", {}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )

    def open_txn(self) -> int:
        """Open a transaction; its id."""
        request = self.types.OpenTxnRequest(1, *_READER)
        [opened] = self.call("open_txns", request).txn_ids
        return int(opened)

    def commit(self, txn: int) -> None:
        """Commit a transaction."""
        self.call("commit_txn", self.types.CommitTxnRequest(txn))

    def lock(  # noqa: PLR0913 - the fields of one request
        self,
        database: str,
        table: str | None = None,
        partition: str | None = None,
        txn: int | None = None,
        *,
        kind: int = SHARED_READ,
        operation: int | None = None,
        owner: tuple[str, str] = _READER,
    ) -> int:
        """Take a lock on a database, a table or a partition; its id. `owner`: user and host."""
        level = _DATABASE_LEVEL if table is None else _TABLE_LEVEL
        if partition is not None:
            level = _PARTITION_LEVEL
        operation = operation or (_SELECT if txn else _NO_TXN)
        component = self.types.LockComponent(
            kind, level, database, table, partition, operation, txn is not None
        )
        request = self.types.LockRequest([component], txn or 0, *owner, "test")
        return int(self.call("lock", request).lockid)

    def unlock(self, lock: int) -> None:
        """Give a lock back."""
        self.call("unlock", self.types.UnlockRequest(lock))

    def write_id(self, database: str, table: str, txn: int) -> int:
        """The write id of a transaction for a table."""
        request = self.types.AllocateTableWriteIdsRequest(database, table, [txn])
        [given] = self.call("allocate_table_write_ids", request).txnToWriteIds
        return int(given.writeId)

    def compaction(
        self, database: str, table: str, highest: int, partition: str | None = None, kind: int = 1
    ) -> tuple[Any, int]:
        """Request a compaction and begin it, as Hive's Worker does; what it is, its transaction.

        Hive 3's Worker runs in the Metastore, and has no transaction (0).
        """
        request = self.types.CompactionRequest(database, table, partition, kind, "test")
        queued = self.call("compact2", request)
        if not queued.accepted:
            raise TidegateError(f"the Metastore did not accept a compaction: {queued}")
        if self.is_hive_3:
            self.begin(queued.id)
            return (queued.id, highest), 0
        what = f"compaction {queued.id} out of the Metastore's queue"
        info = wait_for(what, lambda: self._next_compaction(queued.id))
        info.highestWriteId = highest
        info.runas = getpass.getuser()  # Hive's Cleaner works as this user
        txn = self.compaction_txn(kind)
        self.call("update_compactor_state", info, txn)
        if kind == REBALANCE:
            self.lock_for_rebalance(database, table, txn, partition)
        return info, txn

    def compaction_txn(self, kind: int, worker: str = "worker-1") -> int:
        """Open the transaction of a compaction of this kind; its id."""
        of_type = _REBALANCE if kind == REBALANCE else _COMPACTION
        opened = self.types.OpenTxnRequest(1, "test", worker, None, of_type)
        [txn] = self.call("open_txns", opened).txn_ids
        return int(txn)

    def finish_compaction(self, info: Any, txn: int) -> None:  # noqa: ANN401 - Thrift's types
        """Commit a compaction: its products are visible, and it is ready for cleaning."""
        if self.is_hive_3:
            self.end(*info)
        else:
            self.call("mark_compacted", info)
            self.commit(txn)

    def _next_compaction(self, wanted: int) -> Any:  # noqa: ANN401 - Thrift's types
        """Take an entry of the queue; None if it is another's, or there is none."""
        found = self.call("find_next_compact2", self.types.FindNextCompactRequest("w", "test"))
        return found.ci if found.ci is not None and found.ci.id == wanted else None

    def database(self) -> str:
        """Make a database; its name."""
        name = f"db_{uuid.uuid4().hex[:8]}"
        self.call("create_database", self.types.Database(name, "", None, {}))
        return name

    def abort(self, txn: int) -> None:
        """Abort a transaction."""
        self.call("abort_txn", self.types.AbortTxnRequest(txn))

    def write(self, database: str, table: str, *, commit: bool = True) -> int:
        """A transaction that writes; its write id."""
        txn = self.open_txn()
        write_id = self.write_id(database, table, txn)
        if commit:
            self.commit(txn)
        else:
            self.abort(txn)
        return write_id

    def aborted_write(self, database: str, table: str, partition: str | None = None) -> int:
        """A write that took its locks as Hive does, and aborts; its write id."""
        txn = self.open_txn()
        write_id = self.write_id(database, table, txn)
        self.lock(database, table, partition, txn, kind=SHARED_WRITE, operation=_INSERT)
        self.abort(txn)
        return write_id

    def alter(
        self,
        database: str,
        name: str = "orders",
        *,
        new_name: str | None = None,
        location: Path | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Rename a table without partitions, move it, or replace its properties."""
        with MetastoreClient(self.settings) as client:
            was = client.table(database, name)
        table = self.described(database, new_name or name)
        table.parameters = {"transactional": "true", **(properties or {})}
        table.sd.location = was.location if location is None else f"file:{location}"
        self.call("alter_table", database, name, table)

    def drop_partition(self, database: str, table: str, name: str) -> None:
        self.call("drop_partition_by_name", database, table, name, True)  # noqa: FBT003 - Thrift's own

    def partition(
        self, database: str, table: str, name: str, elsewhere: Path | None = None
    ) -> None:
        """Add a partition, named as in `day=1`, where Hive would put it, or elsewhere."""
        with MetastoreClient(self.settings) as client:
            location = f"{client.table(database, table).location}/{name}"
        if elsewhere is not None:
            location = f"file:{elsewhere}"
        storage = self._storage(table, _COLUMNS, location)
        values = [part.split("=", 1)[1] for part in name.split("/")]
        added = self.types.Partition(values, database, table, 0, 0, storage, {})
        self.call("add_partition", added)

    def drop_table(self, database: str, table: str) -> None:
        self.call("drop_table", database, table, False)  # noqa: FBT003 - Thrift's own

    def heartbeat(self, txn: int | None = None, lock: int | None = None) -> None:
        self.call("heartbeat", self.types.HeartbeatRequest(lock, txn))

    def compact(
        self, database: str, table: str, highest: int, partition: str | None = None, kind: int = 1
    ) -> int:
        """A whole compaction, ready for cleaning; its transaction, which is 0 in Hive 3."""
        info, txn = self.compaction(database, table, highest, partition, kind)
        self.finish_compaction(info, txn)
        return txn

    def lock_for_rebalance(
        self, database: str, table: str, txn: int, partition: str | None = None
    ) -> None:
        """Keep writers out, as the Worker does: a rebalance gives the rows new keys."""
        self.lock(database, table, partition, txn, kind=_EXCLUSIVE_WRITE, operation=_UPDATE)

    def begin(self, compaction_id: int) -> None:
        """Let Hive 3's Worker take entries of the queue until it is this one."""
        wanted = str(compaction_id)
        wait_for(f"compaction {wanted}", lambda: self._worker("next") == wanted)

    def end(self, compaction_id: int, highest: int) -> None:
        """The entry that it took last is ready for cleaning."""
        assert self._worker(f"compacted {compaction_id} {highest}") == str(compaction_id)

    def _worker(self, line: str) -> str:
        """Let the Worker in the Metastore of Hive 3 do something."""
        port = int(self.metastore.settings[WORKER])
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(f"{line}\n".encode())
            return connection.makefile().readline().strip()


def product(name: str, txn: int) -> str:
    """The name of what a compaction made; Hive 3 does not put its transaction into it."""
    return f"{name}_v{txn:07}" if txn else name
