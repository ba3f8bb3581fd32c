"""One real Hive Metastore for the whole test session, and engines that work with it.

Take a table of your own (`HiveEngine.table`) and ask about that only: other tests share it.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.waiting import wait_for
from tidegate.compute.java import find_java
from tidegate.errors import ConfigError, TransientError
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.local.demo import hive_engine as demo
from tidegate.local.demo.hive_engine import SHARED_READ
from tidegate.local.embedded.metastore import HIVE_4, EmbeddedMetastore, _MetastoreVersion
from tidegate.local.embedded.process import free_ports

# the tests' readers send no heartbeats: on a busy machine they must not expire meanwhile
_NO_TIMEOUT = "3600s"
_WORKER = "tidegate.worker"
SHARED_WRITE, EXCLUSIVE, _EXCLUSIVE_WRITE = 2, 3, 4
_INSERT, _UPDATE = 2, 3
REBALANCE = 3
"""A kind of compaction, of Hive 4 only."""
_WITH_WORKER = Path(__file__).parents[1] / "reference/hive/Metastore3.java"
__all__ = ["EXCLUSIVE", "SHARED_READ", "SHARED_WRITE", "HiveEngine"]

_PACKAGE = "org.apache.hadoop.hive.metastore"
HIVE_3 = _MetastoreVersion(
    Path(__file__).with_name("metastore-3.json"),
    f"{_PACKAGE}.tools.MetastoreSchemaTool",
    f"{_PACKAGE}.txn.AcidHouseKeeperService",
    "metastore.timedout.txn.reaper.interval",
)
"""Hive 3.1.3."""
VERSIONS = [
    pytest.param(HIVE_4, id="4.0.1"),
    pytest.param(HIVE_3, id="3.1.3", marks=pytest.mark.full),
]
on_both_versions = pytest.mark.parametrize("metastore", VERSIONS, indirect=True)
"""A test on the shared Metastore of each version; without it a test gets Hive 4's."""


@pytest.fixture(scope="session")
def metastores(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[_MetastoreVersion], EmbeddedMetastore]]:
    """A real Metastore of each version, shared by all tests, started for the first of them."""
    with ExitStack() as stack:

        @cache
        def running(version: _MetastoreVersion) -> EmbeddedMetastore:
            made = own_metastore(tmp_path_factory.mktemp("metastore"), version=version)
            return stack.enter_context(made)

        yield running


@pytest.fixture
def metastore(
    request: pytest.FixtureRequest, metastores: Callable[[_MetastoreVersion], EmbeddedMetastore]
) -> EmbeddedMetastore:
    """The shared Metastore; one that a test stops or kills is its own."""
    return metastores(getattr(request, "param", HIVE_4))


def own_metastore(
    folder: Path,
    more: Mapping[str, str] | None = None,
    *,
    timeout: str = _NO_TIMEOUT,
    version: _MetastoreVersion = HIVE_4,
) -> EmbeddedMetastore:
    """A Metastore that is not started yet; transactions and locks time out after `timeout`.

    `more` are further settings of it.
    """
    if version == HIVE_3:
        port = free_ports()[0]
        more = {_WORKER: str(port), **(more or {})}
        version = replace(HIVE_3, main=str(_WITH_WORKER))
    try:
        find_java(17)
    except ConfigError as error:
        pytest.skip(f"a real Metastore needs Java 17: {error}")
    settings = {"metastore.txn.timeout": timeout, version.interval_setting: "1s"}
    settings |= more or {}
    return EmbeddedMetastore(folder, settings=settings, version=version)


class HiveEngine(demo.HiveEngine):
    """What Hive, openLooKeng and their compactors ask of a Metastore, call by call."""

    def __init__(self, metastore: EmbeddedMetastore) -> None:
        super().__init__(metastore.uri)
        self.metastore = metastore
        self.is_hive_3 = metastore.version.lock == HIVE_3.lock

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

    def create(self, described: Any) -> None:  # noqa: ANN401 - Thrift's types
        """Make a table of a description."""
        if self.is_hive_3:
            self.call("create_table", described)
        else:
            super().create(described)

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
        types = self.types
        with MetastoreClient(self.settings) as client:
            location = f"{client.table(database, table).location}/{name}"
        if elsewhere is not None:
            location = f"file:{elsewhere}"
        serde = types.SerDeInfo(table, "org.apache.hadoop.hive.ql.io.orc.OrcSerde", {})
        storage = types.StorageDescriptor(
            [types.FieldSchema("id", "int", "")],
            location,
            "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
            "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=serde,
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        values = [part.split("=", 1)[1] for part in name.split("/")]
        self.call("add_partition", types.Partition(values, database, table, 0, 0, storage, {}))

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

    def compaction(
        self, database: str, table: str, highest: int, partition: str | None = None, kind: int = 1
    ) -> tuple[Any, int]:
        """Begin one; Hive 3's Worker runs in the Metastore, and has no transaction (0)."""
        if not self.is_hive_3:
            info, txn = super().compaction(database, table, highest, partition, kind)
            if kind == REBALANCE:
                self.lock_for_rebalance(database, table, txn, partition)
            return info, txn
        request = self.types.CompactionRequest(database, table, partition, kind, "test")
        queued = self.call("compact2", request)
        assert queued.accepted, queued
        self.begin(queued.id)
        return (queued.id, highest), 0

    def lock_for_rebalance(
        self, database: str, table: str, txn: int, partition: str | None = None
    ) -> None:
        """Keep writers out, as the Worker does: a rebalance gives the rows new keys."""
        self.lock(database, table, partition, txn, kind=_EXCLUSIVE_WRITE, operation=_UPDATE)

    def finish_compaction(self, info: Any, txn: int) -> None:  # noqa: ANN401 - as above
        """End one; readers see what it made from now on."""
        if self.is_hive_3:
            self.end(*info)
        else:
            super().finish_compaction(info, txn)

    def begin(self, compaction_id: int) -> None:
        """Let Hive 3's Worker take entries of the queue until it is this one."""
        wanted = str(compaction_id)
        wait_for(f"compaction {wanted}", lambda: self._worker("next") == wanted)

    def end(self, compaction_id: int, highest: int) -> None:
        """The entry that it took last is ready for cleaning."""
        assert self._worker(f"compacted {compaction_id} {highest}") == str(compaction_id)

    def _worker(self, line: str) -> str:
        """Let the Worker in the Metastore of Hive 3 do something."""
        port = int(self.metastore.settings[_WORKER])
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.sendall(f"{line}\n".encode())
            return connection.makefile().readline().strip()


def product(name: str, txn: int) -> str:
    """The name of what a compaction made; Hive 3 does not put its transaction into it."""
    return f"{name}_v{txn:07}" if txn else name


@pytest.fixture
def engine(metastore: EmbeddedMetastore) -> Iterator[HiveEngine]:
    """An engine on the shared Metastore."""
    made = HiveEngine(metastore)
    yield made
    made.close()


def until_answers(settings: MetastoreSettings) -> None:
    """Wait for a Metastore that was started again."""

    def answers() -> bool:
        try:
            with MetastoreClient(settings) as client:
                return bool(client.uuid())
        except TransientError:
            return False

    wait_for("the Metastore's answer", answers)
