"""What Hive and its compactor ask of a Metastore, call by call: the demo's upstream, and tests'."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import tidegate.hive_metastore
from tidegate.errors import TidegateError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.hive_metastore.connection import Connection

SHARED_READ: Final = 1
_DATABASE_LEVEL, _TABLE_LEVEL, _PARTITION_LEVEL = 1, 2, 3
_SELECT, _NO_TXN = 1, 6
_COMPACTION: Final = 3
"""A type of transaction: its commit makes the compaction visible."""
_KIND_OF_REBALANCE, _REBALANCE = 3, 6
"""A kind of compaction, and its type of transaction."""
_TAKE_SECONDS: Final = 20.0
_READER: Final = ("ana", "client-1")
_COLUMNS: Final[Mapping[str, str]] = {"id": "int"}
_WRITE_CAPABILITIES: Final = [
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

    def __init__(self, uri: str) -> None:
        """Take the Metastore's address; nothing is connected yet."""
        # Derby takes its time to end a deadlock of two calls
        self.settings = MetastoreSettings(uri=uri, timeout_ms=60_000)
        self.types = _interface()
        self._connection = Connection(self.settings, service=self.types.WriteMetastore)

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
        types = self.types
        serde = types.SerDeInfo(name, "org.apache.hadoop.hive.ql.io.orc.OrcSerde", {})
        storage = types.StorageDescriptor(
            [types.FieldSchema(column, kind, "") for column, kind in columns.items()],
            None,
            "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
            "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
            False,  # noqa: FBT003 - Thrift's constructor
            -1,
            serde,
            [],
            [],
            {},
        )
        keys = [types.FieldSchema(column, "string", "") for column in partitioned_by]
        kind = "MANAGED_TABLE" if acid else "EXTERNAL_TABLE"
        parameters = {"transactional": "true"} if acid else {"EXTERNAL": "TRUE"}
        return types.Table(name, database, "test", 0, 0, 0, storage, keys, parameters, kind)

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
        """Request a compaction and begin it, as Hive's Worker does; what it is, its transaction."""
        types = self.types
        request = types.CompactionRequest(database, table, partition, kind, "test")
        queued = self.call("compact2", request)
        if not queued.accepted:
            raise TidegateError(f"the Metastore did not accept a compaction: {queued}")
        info = self._next_compaction(queued.id)
        info.highestWriteId = highest
        info.runas = getpass.getuser()  # Hive's Cleaner works as this user
        txn = self.compaction_txn(kind)
        self.call("update_compactor_state", info, txn)
        return info, txn

    def compaction_txn(self, kind: int, worker: str = "worker-1") -> int:
        """Open the transaction of a compaction of this kind; its id."""
        of_type = _REBALANCE if kind == _KIND_OF_REBALANCE else _COMPACTION
        opened = self.types.OpenTxnRequest(1, "test", worker, None, of_type)
        [txn] = self.call("open_txns", opened).txn_ids
        return int(txn)

    def finish_compaction(self, info: object, txn: int) -> None:
        """Commit a compaction: its products are visible, and it is ready for cleaning."""
        self.call("mark_compacted", info)
        self.commit(txn)

    def _next_compaction(self, wanted: int) -> Any:  # noqa: ANN401 - Thrift's types
        """Take entries of the queue until it is ours: others have theirs.

        Raises:
            TidegateError: it did not come.
        """
        deadline = time.monotonic() + _TAKE_SECONDS
        while time.monotonic() < deadline:
            found = self.call("find_next_compact2", self.types.FindNextCompactRequest("w", "test"))
            if found.ci is not None and found.ci.id == wanted:
                return found.ci
            time.sleep(0.05)
        raise TidegateError(f"compaction {wanted} did not come out of the Metastore's queue")
