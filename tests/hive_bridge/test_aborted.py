"""What aborted writes left is found, cleaned and forgotten: on a real Metastore."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.acid import COMPACTED, TRUNCATED, build, names_in
from support.bridge_threads import wait_for_threads
from support.hive_engine import HiveEngine
from support.metastore import on_both_versions, own_metastore
from support.waiting import wait_for
from support.watched_bridge import acid_table
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import aborted_command
from tidegate.events import WritesAborted
from tidegate.hive_bridge.aborted_sweep import AbortedSweep
from tidegate.hive_bridge.observer import Observer
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.storage import Storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

pytestmark = pytest.mark.slow
GRACE = 100.0


class Sweep(Observer):
    """A sweep with a clock of its own, which counts its calls."""

    def __init__(self, engine: HiveEngine) -> None:
        self.now = 0.0
        self.engine = engine
        settings = BridgeSettings(
            uri=engine.settings.uri, aborted_interval_ms=1, aborted_grace_ms=round(1000 * GRACE)
        )
        self.calls: Counter[str] = Counter()
        self.refusals = 0
        self.sweep = AbortedSweep(settings, Storage(), lambda: self.now, self)

    def called(self, name: str) -> None:
        self.calls[name] += 1

    def refused(self) -> None:
        self.refusals += 1

    def after(self, seconds: float, db: str) -> list[WritesAborted]:
        """The events of a database, published so much later."""
        self.now += seconds
        with MetastoreClient(self.engine.settings) as client:
            aborted = client.transactions().aborted
        self.sweep.look(aborted or frozenset({1}))
        wait_for_threads(self.sweep)
        found = self.sweep.look(frozenset())
        for event in found:
            self.sweep.published(event)
        return [event for event in found if f".{db}." in event.table]


@pytest.fixture
def sweep(engine: HiveEngine) -> Iterator[Sweep]:
    made = Sweep(engine)
    yield made
    made.sweep.close()


def clean(fact: WritesAborted) -> None:
    roots = WarehouseRoots.of(str(Path(fact.location).parents[2]))
    cleaner = Cleaner(Warehouse(roots), ThreadMap(2), lambda: datetime.now(UTC))
    list(cleaner.execute(aborted_command(fact, datetime.now(UTC))))


def delta(write_id: int) -> str:
    return f"delta_{write_id:07}_{write_id:07}_0000"


@on_both_versions
def test_what_aborted_is_published_after_its_grace_time_and_only_that_is_cleaned(
    engine: HiveEngine, sweep: Sweep
) -> None:
    db, location = acid_table(engine)
    good, bad = engine.write(db, "orders"), engine.aborted_write(db, "orders")
    txn = engine.open_txn()
    running = engine.write_id(db, "orders", txn)
    later = engine.aborted_write(db, "orders")
    build(location, {delta(write_id): 10 for write_id in (good, bad, running, later)})

    assert sweep.after(0, db) == []
    assert sweep.after(GRACE - 1, db) == []
    [fact] = sweep.after(1, db)
    assert (fact.table, fact.location) == (f"hive.{db}.orders", str(location))
    assert fact.valid_write_ids == f"{db}.orders:{bad}:9223372036854775807::{bad}"
    assert sweep.after(10, db) == []  # said once, for a while
    clean(fact)

    assert names_in(location) == [delta(write_id) for write_id in (good, running, later)]
    engine.commit(txn)
    assert sweep.after(1, db) == []
    again = engine.aborted_write(db, "orders")  # which delays no earlier one
    build(location, {delta(again): 10})
    sweep.after(GRACE - 1, db)
    [fact] = sweep.after(1, db)
    clean(fact)
    shutil.rmtree(location / delta(again))
    assert names_in(location) == [delta(write_id) for write_id in (good, running)]


@on_both_versions
def test_partitions_that_the_metastore_does_not_know_are_met_too(
    engine: HiveEngine, sweep: Sweep
) -> None:
    """Of a write with dynamic partitions that aborted early; a base in one decides about none."""
    db, location = acid_table(engine, partitioned=True)
    engine.partition(db, "orders", "day=1")
    good, bad = engine.write(db, "orders"), engine.aborted_write(db, "orders")
    last = engine.write(db, "orders")
    for day in ("day=1", "day=2"):
        build(location / day, {delta(good): 10, delta(bad): 10})
    build(location / "day=1", {f"base_{last:07}": 10})

    sweep.after(0, db)
    facts = sweep.after(GRACE, db)

    assert {event.partition for event in facts} == {"day=1", "day=2"}
    for event in facts:
        clean(event)
    assert names_in(location / "day=1") == [f"base_{last:07}", delta(good)]
    assert names_in(location / "day=2") == [delta(good)]


@on_both_versions
def test_nothing_of_a_table_goes_that_is_not_to_be_cleaned_or_has_a_partition_elsewhere(
    engine: HiveEngine, sweep: Sweep, caplog: pytest.LogCaptureFixture
) -> None:
    kept, location = acid_table(engine)
    build(location, {delta(engine.aborted_write(kept, "orders")): 10})
    engine.alter(kept, properties={"NO_CLEANUP": "true"})
    spread, location = acid_table(engine, partitioned=True)
    engine.partition(spread, "orders", "day=1", location.parent / "elsewhere")
    build(location / "day=2", {delta(engine.aborted_write(spread, "orders")): 10})

    with caplog.at_level(logging.WARNING):
        for seconds in (0, GRACE, GRACE):
            for db in (kept, spread):
                assert sweep.after(seconds + 1, db) == []

    [said] = [message for message in caplog.messages if spread in message]
    assert "not in its table's directory" in said


@pytest.mark.parametrize(
    ("table", "partition"),
    [
        pytest.param("my table", b"", id="a name with a space"),
        pytest.param("orders", b"/".join([b"day=" + b"x" * 240] * 5), id="a path too long"),
        pytest.param("orders", b"day=\xff", id="a name that is not UTF-8"),
    ],
)
def test_one_odd_table_is_named_once_and_stands_in_no_other_table_s_way(
    engine: HiveEngine, sweep: Sweep, caplog: pytest.LogCaptureFixture, table: str, partition: bytes
) -> None:
    odd = engine.database()
    location = engine.table(odd, table, partitioned_by=["day"] if partition else [])
    place = Path(os.fsdecode(os.fsencode(location) + b"/" + partition))
    build(place, {delta(engine.aborted_write(odd, table)): 10})
    db, location = acid_table(engine)
    build(location, {delta(engine.aborted_write(db, "orders")): 10})

    with caplog.at_level(logging.WARNING):
        sweep.after(0, db)
        [fact] = sweep.after(GRACE, db)
        assert sweep.after(GRACE, odd) == []

    assert fact.location == str(location)
    assert len([message for message in caplog.messages if odd in message]) == 1
    assert sweep.refusals >= 1


@on_both_versions
def test_an_aborted_truncate_goes_and_a_base_that_a_compaction_wrote_stays(
    engine: HiveEngine, sweep: Sweep
) -> None:
    """Both bases have the same name; the file `_metadata_acid` says which is which."""
    (truncated, its), (compacted, other) = acid_table(engine), acid_table(engine)
    for db, location, content in ((truncated, its, TRUNCATED), (compacted, other, COMPACTED)):
        bad = engine.aborted_write(db, "orders")
        build(location, {f"base_{bad:07}": 10})
        (location / f"base_{bad:07}" / "_metadata_acid").write_bytes(content)

    sweep.after(0, truncated)
    [fact] = sweep.after(GRACE, truncated)
    assert sweep.after(GRACE, compacted) == []

    clean(fact)
    assert (names_in(its), names_in(other)) == ([], ["base_0000001"])


@pytest.mark.parametrize("name", ["_day=1", "_hidden", ".hidden/day=1"])
def test_a_partition_whose_directory_has_the_name_of_a_hidden_one_is_met_too(
    engine: HiveEngine, sweep: Sweep, name: str
) -> None:
    """Readers list a partition's directory whatever its name is."""
    db, location = acid_table(engine, partitioned=True)
    engine.partition(db, "orders", "day=1", location / name)
    bad = engine.aborted_write(db, "orders")
    build(location / name, {delta(bad): 10})

    sweep.after(0, db)
    [fact] = sweep.after(GRACE, db)

    assert fact.partition == name
    clean(fact)
    assert names_in(location / name) == []


def test_no_abort_is_forgotten_while_a_partition_is_reached_through_a_link(
    engine: HiveEngine, sweep: Sweep, caplog: pytest.LogCaptureFixture
) -> None:
    """Readers follow the link: to them the aborted rows behind it would become visible."""
    db, location = acid_table(engine, partitioned=True)
    engine.partition(db, "orders", "day=1")
    bad = engine.aborted_write(db, "orders")
    elsewhere = build(location.parent / "elsewhere", {delta(bad): 10})
    shutil.rmtree(location / "day=1", ignore_errors=True)
    location.mkdir(exist_ok=True)
    (location / "day=1").symlink_to(elsewhere)

    with caplog.at_level(logging.INFO):
        for seconds in (0, GRACE, GRACE):
            assert sweep.after(seconds, db) == []

    said = [message for message in caplog.messages if db in message]
    assert len(said) == 1, said
    assert "day=1 is a symbolic link" in said[0]
    assert names_in(elsewhere) == [delta(bad)]


@pytest.mark.full  # a Metastore of its own
def test_the_metastore_forgets_a_write_only_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    """With its own service that forgets transactions, as it runs in production."""
    services = "org.apache.hadoop.hive.metastore.txn.service."
    more = {
        "metastore.task.threads.always": (
            f"{services}AcidHouseKeeperService,{services}AcidTxnCleanerService"
        ),
        "metastore.acid.txn.cleaner.interval": "1s",
        "metastore.txn.opentxn.timeout": "1s",
    }
    with own_metastore(tmp_path / "metastore", more) as metastore:
        engine = HiveEngine(metastore)
        sweep = Sweep(engine)
        db, location = acid_table(engine)
        bad = engine.aborted_write(db, "orders")
        nothing_left = engine.aborted_write(db, "orders")
        build(location, {delta(bad): 10})
        engine.write(db, "orders")

        def aborted() -> frozenset[int]:
            engine.write(db, "orders")  # time goes on for it with new transactions only
            with MetastoreClient(engine.settings) as client:
                return client.transactions().aborted

        sweep.after(0, db)
        [fact] = sweep.after(GRACE, db)
        assert len(aborted()) == 2
        clean(fact)
        sweep.after(GRACE, db)

        wait_for("the service", lambda: not aborted())
        assert not (location / delta(bad)).exists()
        assert nothing_left > bad
        sweep.sweep.close()
        engine.close()
    shutil.rmtree(tmp_path / "metastore")
