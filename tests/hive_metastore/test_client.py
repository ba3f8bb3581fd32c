"""The client on a real Metastore: every answer as a value."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hive_engine import REBALANCE, HiveEngine
from support.metastore import on_both_versions, own_metastore, until_answers
from tidegate.embedded.process import free_ports
from tidegate.errors import MetastoreRefusedError, TransientError
from tidegate.events import LockType, VacuumKind
from tidegate.hive.write_ids import IdRanges
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.hive_metastore.values import READY_FOR_CLEANING, write_ids_of_compaction

pytestmark = pytest.mark.slow


@pytest.fixture
def client(engine: HiveEngine) -> Iterator[MetastoreClient]:
    with MetastoreClient(engine.settings) as connected:
        yield connected


@on_both_versions
def test_locks_of_every_level_are_listed_with_their_transactions(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    db = engine.database()
    engine.table(db, partitioned_by=["day"])
    txn = engine.open_txn()
    on_database = engine.lock(db)
    on_table = engine.lock(db, "orders", txn=txn)
    on_partition = engine.lock(db, "orders", "day=1")

    ours = {lock.lock_id: lock for lock in client.locks() if lock.database == db}

    assert set(ours) == {on_database, on_table, on_partition}
    assert (ours[on_database].table, ours[on_database].partition) == (None, None)
    assert ours[on_table].transaction_id == txn
    assert ours[on_table].owner == f"ana@client-1 (transaction {txn})"
    assert ours[on_partition].partition == "day=1"
    assert ours[on_partition].kind is LockType.SHARED_READ
    assert ours[on_partition].heartbeat_ms > 0
    engine.unlock(on_database)
    engine.unlock(on_partition)
    engine.commit(txn)
    assert [lock for lock in client.locks() if lock.database == db] == []


@on_both_versions
def test_transactions_are_listed_by_another_call_where_the_metastore_breaks_one_off(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    class BrokenOff(MetastoreClient):
        """Hive 4.0.1 while a transaction's id is pending."""

        def call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - as the original
            if name == "get_open_txns_info":
                raise TransientError("the Metastore did not answer get_open_txns_info: EOF")
            return super().call(name, *arguments)

    db = engine.database()
    engine.table(db)
    txn = engine.open_txn()
    engine.aborted_write(db, "orders")
    expected = client.transactions()

    with BrokenOff(engine.settings) as other:
        found = other.transactions()

    assert expected.aborted
    assert found.high_water_mark == expected.high_water_mark
    assert (found.open.keys(), found.aborted) == (expected.open.keys(), expected.aborted)
    assert txn in found.open
    engine.commit(txn)


@on_both_versions
def test_transactions_are_open_until_they_end(engine: HiveEngine, client: MetastoreClient) -> None:
    db = engine.database()
    engine.table(db)
    txn, other = engine.open_txn(), engine.open_txn()
    engine.write_id(db, "orders", other)  # an aborted one that wrote nothing may be forgotten
    before = client.transactions()
    assert {txn, other} <= set(before.open)
    assert before.high_water_mark >= other

    engine.commit(txn)
    engine.abort(other)

    after = client.transactions()
    assert not {txn, other} & set(after.open)
    assert other in after.aborted
    assert after.high_water_mark >= before.high_water_mark


def test_a_rebalance_is_visible_once_its_transaction_has_committed(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    """Its commit fills in no next transaction (Hive 4.0.1)."""
    db = engine.database()
    engine.table(db)
    highest = engine.write(db, "orders")
    info, txn = engine.compaction(db, "orders", highest, kind=REBALANCE)
    engine.call("mark_compacted", info)
    [ready] = client.compactions(db, "orders")
    engine.commit(txn)
    [committed] = client.compactions(db, "orders")

    assert (ready.state, ready.is_visible) == (READY_FOR_CLEANING, False)
    assert (committed.is_visible, committed.next_transaction_id) == (True, None)
    assert client.queued(committed.compaction_id) == committed
    engine.drop_table(db, "orders")  # a bridge of another test would mark it


def test_a_rebalance_that_aborted_is_never_visible(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    db = engine.database()
    engine.table(db)
    highest = engine.write(db, "orders")
    info, txn = engine.compaction(db, "orders", highest, kind=REBALANCE)
    engine.call("mark_compacted", info)
    engine.abort(txn)

    client.mark_aborted_cleaned(db, "orders", highest)

    assert txn in client.transaction_states().aborted  # and not forgotten
    [entry] = client.compactions(db, "orders")
    assert (entry.state, entry.is_visible) == (READY_FOR_CLEANING, False)
    engine.drop_table(db, "orders")


def test_a_compaction_is_visible_only_once_its_transaction_has_committed(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    db = engine.database()
    engine.table(db)
    highest = max(engine.write(db, "orders") for _ in range(3))
    info, txn = engine.compaction(db, "orders", highest)

    def ours() -> list[bool]:
        return [
            compaction.is_visible
            for compaction in client.compactions()
            if compaction.database == db
        ]

    assert ours() == [False]
    engine.call("mark_compacted", info)
    assert ours() == [False]  # the Metastore says "ready for cleaning", readers see nothing yet
    engine.commit(txn)

    [found] = [compaction for compaction in client.compactions() if compaction.database == db]
    assert found.is_visible
    assert (found.table, found.partition, found.kind) == ("orders", None, VacuumKind.MINOR)
    assert (found.transaction_id, found.highest_write_id) == (txn, 3)
    assert found.next_transaction_id is not None
    assert found.next_transaction_id >= txn
    engine.drop_table(db, "orders")


@on_both_versions
def test_write_ids_of_a_compaction_have_the_aborted_and_nothing_later(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    db = engine.database()
    engine.table(db)
    engine.write(db, "orders")
    engine.write(db, "orders", commit=False)
    engine.write(db, "orders")
    later = engine.open_txn()
    engine.write_id(db, "orders", later)

    answer = client.write_ids(db, "orders", client.transactions().valid())

    assert answer.open == IdRanges.of(4)
    assert str(write_ids_of_compaction(answer, 3)) == f"{db}.orders:3:9223372036854775807::2"
    assert str(write_ids_of_compaction(answer, 1)) == f"{db}.orders:1:9223372036854775807::"
    engine.abort(later)


@on_both_versions
def test_tables_say_where_they_are_and_whether_they_are_acid(
    engine: HiveEngine, client: MetastoreClient
) -> None:
    db = engine.database()
    location = engine.table(db)
    engine.table(db, "plain", acid=False)

    assert client.table(db, "orders").location == f"file:{location}"
    assert client.table(db, "orders").is_acid
    assert not client.table(db, "plain").is_acid
    with pytest.raises(MetastoreRefusedError, match="get_table_req"):
        client.table(db, "missing")
    assert client.setting("metastore.txn.timeout") == "3600s"
    assert client.setting("hive.nothing.of.this.name") is None


@pytest.mark.full
def test_a_metastore_that_restarts_is_the_same_one(tmp_path: Path) -> None:
    metastore = own_metastore(tmp_path / "metastore")
    with metastore:
        engine = HiveEngine(metastore)
        txn = engine.open_txn()
        client = MetastoreClient(engine.settings)
        before = client.uuid()
        metastore.kill()
        with pytest.raises(TransientError, match="did not answer"):
            client.locks()
        metastore.start()
        until_answers(engine.settings)
        assert client.uuid() == before
        assert txn in client.transactions().open
        client.close()
        engine.close()


def test_a_missing_server_is_a_transient_fault() -> None:
    settings = MetastoreSettings(uri=f"thrift://127.0.0.1:{free_ports()[0]}")
    with MetastoreClient(settings) as client, pytest.raises(TransientError):
        client.locks()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing at all"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="another protocol"),
        pytest.param(
            b"\x80\x01\x00\x02\x00\x00\x00\x0ashow_locks\x00\x00\x00\x00", id="half an answer"
        ),
        pytest.param(
            b"\x80\x01\x00\x02\x00\x00\x00\x0ashow_locks\x00\x00\x00\x00\x00",
            id="an answer without a result",
        ),
        pytest.param(
            b"\x80\x01\x00\x02\x00\x00\x00\x0ashow_locks\x00\x00\x00\x00\x0c\x00\x00\x00\x00",
            id="a result without the list of locks",
        ),
    ],
)
def test_half_an_answer_is_not_an_empty_list_of_locks(answer: bytes) -> None:
    with (
        _Server(answer) as settings,
        MetastoreClient(settings) as client,
        pytest.raises(TransientError),
    ):
        client.locks()


def test_an_answer_that_comes_late_is_never_taken_for_another_calls() -> None:
    empty = (
        b"\x80\x01\x00\x02\x00\x00\x00\x0ashow_locks\x00\x00\x00\x00"
        b"\x0c\x00\x00\x0f\x00\x01\x0c\x00\x00\x00\x00\x00\x00"
    )
    with _Server(empty, after=1.0) as settings, MetastoreClient(settings) as client:
        with pytest.raises(TransientError):
            client.locks()  # its answer comes later, on a connection that is closed by then
        assert client._client is None


class _Server:
    """A server that gives the same bytes to every client, then hangs up."""

    def __init__(self, answer: bytes, after: float = 0.0) -> None:
        self._answer, self._after = answer, after
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> MetastoreSettings:
        self._thread.start()
        port = self._socket.getsockname()[1]
        return MetastoreSettings(uri=f"thrift://127.0.0.1:{port}", timeout_ms=300)

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                time.sleep(self._after)
                try:
                    connection.sendall(self._answer)
                except OSError:
                    continue
