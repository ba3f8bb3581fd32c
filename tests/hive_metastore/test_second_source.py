"""A real Metastore as the second source of a removal, and what asking it costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.acid import build, names_in
from support.embedded_metastore import HIVE_4, EmbeddedMetastore
from support.hive_engine import HiveEngine, product
from support.metastore import VERSIONS, own_metastore
from support.watched_bridge import acid_table, wrote
from tidegate.cleaning.confirmation import Proof
from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.plan import content_of
from tidegate.cleaning.second_source import SecondSource
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import aborted_command
from tidegate.events import (
    CleaningDeferred,
    CleaningRefused,
    CleaningReleased,
    DirectoriesCleaned,
    Outcome,
    WritesAborted,
)
from tidegate.hive_metastore import MetastoreClient
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def its_own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedMetastore]:
    """A Metastore of this file: a transaction that another test leaves open is a reader here."""
    version = getattr(request, "param", HIVE_4)
    with own_metastore(tmp_path_factory.mktemp("metastore"), version=version) as running:
        yield running


@pytest.fixture
def engine(its_own: EmbeddedMetastore) -> Iterator[HiveEngine]:
    made = HiveEngine(its_own)
    yield made
    made.close()


on_both_versions = pytest.mark.parametrize("its_own", VERSIONS, indirect=True)


def cleaner(engine: HiveEngine, location: Path, *, at_once: bool = False) -> Cleaner:
    source = SecondSource(engine.settings, readers_lock_at_once=at_once)
    warehouse = Warehouse(WarehouseRoots.of(str(location.parents[1])))
    return Cleaner(warehouse, ThreadMap(2), lambda: datetime.now(UTC), second=source)


def clean(engine: HiveEngine, command: CleaningReleased, *, at_once: bool = False) -> Outcome:
    worker = cleaner(engine, Path(command.location), at_once=at_once)
    *_, outcome = worker.execute(command)
    return outcome


def released(
    engine: HiveEngine, db: str, location: Path, txn: int, partition: str | None = None
) -> CleaningReleased:
    """The command after a minor compaction of three writes; 0: the Metastore is of Hive 3."""
    with MetastoreClient(engine.settings) as client:
        transactions = client.transactions()
        ids = client.write_ids(db, "orders", transactions.valid())
    return CleaningReleased(
        table=f"hive.{db}.orders",
        location=str(location),
        source="coordinator",
        occurred_at=datetime.now(UTC),
        caused_by="vacuum-1",
        kind="minor",
        partition=partition,
        directories=(product("delta_0000001_0000003", txn),),
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=str(ids),
        own_transaction_id=txn or None,
        last_lock_id=0,
        last_transaction_id=transactions.high_water_mark,
    )


def compacted(
    engine: HiveEngine, *, partition: str | None = None
) -> tuple[str, Path, CleaningReleased]:
    """A table, or its partition, after a minor compaction; and the command to clean it."""
    db, location = acid_table(engine, partitioned=partition is not None)
    if partition is not None:
        engine.partition(db, "orders", partition)
    where = location / partition if partition else location
    wrote(engine, db, where)
    txn = engine.compact(db, "orders", 3, partition)
    build(where, {product("delta_0000001_0000003", txn): 30})
    return db, location, released(engine, db, location, txn, partition)


def test_an_honest_vacuum_is_cleaned_though_others_read_the_table_by_now(
    engine: HiveEngine,
) -> None:
    db, location, command = compacted(engine)
    later = engine.open_txn()
    engine.lock(db, "orders", txn=later)

    outcome = clean(engine, command)

    assert isinstance(outcome, DirectoriesCleaned), outcome
    assert outcome.mode == "delete"
    assert names_in(location) == list(command.directories)
    engine.commit(later)


def test_a_reader_that_was_declared_ended_keeps_its_directories_until_it_ends(
    engine: HiveEngine,
) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    engine.table(db, "other")
    reader = engine.open_txn()
    engine.lock(db, "other", txn=reader)  # it locks its tables one by one
    txn = engine.compact(db, "orders", 3)
    build(location, {product("delta_0000001_0000003", txn): 30})
    command = released(engine, db, location, txn)

    outcome = clean(engine, command)

    assert isinstance(outcome, CleaningDeferred)
    assert f"transaction {reader} as open" in (outcome.message or "")
    assert len(names_in(location)) == 4
    engine.commit(reader)
    assert isinstance(clean(engine, command), DirectoriesCleaned)


def test_where_engines_lock_at_once_a_long_query_elsewhere_holds_nothing_back(
    engine: HiveEngine,
) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    engine.table(db, "other")
    reader = engine.open_txn()
    engine.lock(db, "other", txn=reader)
    txn = engine.compact(db, "orders", 3)
    build(location, {product("delta_0000001_0000003", txn): 30})

    outcome = clean(engine, released(engine, db, location, txn), at_once=True)

    assert isinstance(outcome, DirectoriesCleaned), outcome
    engine.commit(reader)


def test_a_vacuum_published_before_its_commit_removes_nothing(engine: HiveEngine) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    info, txn = engine.compaction(db, "orders", 3)
    build(location, {product("delta_0000001_0000003", txn): 30})
    command = released(engine, db, location, txn)

    early = clean(engine, command)
    engine.call("mark_compacted", info)
    marked = clean(engine, command)
    engine.commit(txn)

    assert isinstance(early, CleaningDeferred)
    assert isinstance(marked, CleaningDeferred)
    assert isinstance(clean(engine, command), DirectoriesCleaned)


def test_an_open_overwrite_named_as_a_compaction_removes_nothing(engine: HiveEngine) -> None:
    db, location, command = compacted(engine)
    writer = engine.open_txn()
    write_id = engine.write_id(db, "orders", writer)
    base = f"base_{write_id:07}"
    build(location, {base: 30})
    changes = {
        "kind": "major",
        "directories": (base,),
        "max_write_id": write_id,
        "valid_write_ids": f"{db}.orders:{write_id}:{2**63 - 1}::",
    }
    forged = CleaningReleased.model_validate(command.model_dump() | changes)

    assert isinstance(clean(engine, forged), CleaningDeferred)
    engine.abort(writer)
    assert isinstance(clean(engine, forged), CleaningDeferred)
    assert len(names_in(location)) == 5


@on_both_versions
def test_a_forged_abort_of_committed_writes_removes_nothing(engine: HiveEngine) -> None:
    db, location = acid_table(engine)
    wrote(engine, db, location)
    files = Warehouse(WarehouseRoots.of(str(location)))
    listing = read_acid_directories(files, str(location), ThreadMap(1))
    forged = WritesAborted(
        table=f"hive.{db}.orders",
        location=str(location),
        source="anybody",
        occurred_at=datetime.now(UTC),
        valid_write_ids=f"{db}.orders:3:{2**63 - 1}::1,2,3",
        content=content_of(listing or ()),
    )

    *_, outcome = cleaner(engine, location).execute(aborted_command(forged, datetime.now(UTC)))

    assert isinstance(outcome, CleaningRefused)
    assert outcome.reason == "not-confirmed"
    assert "write ids 1 to 1 aborted; the Metastore has them as committed" in outcome.message
    assert len(names_in(location)) == 3


def test_an_event_under_another_tables_name_removes_nothing(engine: HiveEngine) -> None:
    db, location, command = compacted(engine)
    engine.table(db, "other")
    for name in ("other", "none"):
        ids = command.valid_write_ids.replace(".orders:", f".{name}:")
        forged = command.model_copy(
            update={"table": f"hive.{db}.{name}", "valid_write_ids": ids, "event_id": name}
        )
        assert isinstance(clean(engine, forged), CleaningDeferred)
    assert len(names_in(location)) == 4


def hive_3_only() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("its_own", VERSIONS[1:], indirect=True)


@hive_3_only()
def test_hive_3_proves_no_compaction_so_its_files_have_to_be_complete(engine: HiveEngine) -> None:
    _, location, command = compacted(engine)
    source = SecondSource(engine.settings, readers_lock_at_once=False)

    assert source.confirm(command, cleaner(engine, location).plan(command)) is Proof.UNPROVEN
    outcome = clean(engine, command)

    assert isinstance(outcome, CleaningRefused)  # the files of these tests are not ORC
    assert outcome.reason == "products-incomplete"


def test_a_metastore_that_is_away_is_waited_for(engine: HiveEngine) -> None:
    _, location, command = compacted(engine)
    away = engine.settings.model_copy(update={"uri": "thrift://127.0.0.1:1", "timeout_ms": 500})
    source = SecondSource(away, readers_lock_at_once=False)
    worker = replace(cleaner(engine, location), second=source)

    [outcome] = worker.execute(command)

    assert isinstance(outcome, CleaningDeferred)
    assert outcome.reason == "second-source-away"
    assert "did not answer" in (outcome.message or "")
    assert len(names_in(location)) == 4


@on_both_versions
def test_a_cleaning_costs_six_calls_and_fifty_milliseconds(
    engine: HiveEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, location, command = compacted(engine, partition="day=1")
    calls: Counter[str] = Counter()
    source = SecondSource(engine.settings, readers_lock_at_once=False)
    plan = cleaner(engine, location).plan(command)
    took: list[float] = []
    for _ in range(30):
        began = time.perf_counter()
        source.confirm(command, plan)
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    connect = MetastoreClient.call

    def counted(self: MetastoreClient, name: str, *arguments: object) -> object:
        calls[name] += 1
        return connect(self, name, *arguments)

    monkeypatch.setattr(MetastoreClient, "call", counted)
    source.confirm(command, plan)

    print(f"second source: p50 {took[15]:.1f} ms, p95 {took[28]:.1f} ms, {dict(calls)}")  # noqa: T201
    assert sum(calls.values()) <= 6, calls
    assert took[0] < 50, took
