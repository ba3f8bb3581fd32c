"""Real Hive overwrites and truncates; one copy is left, and Hive reads the same rows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.acid import names_in
from support.hive_engine import HiveEngine
from support.hive_session import HiveSession, hive_session
from support.metastore import own_metastore
from support.waiting import wait_for
from support.watched_bridge import Queued
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.second_source import SecondSource
from tidegate.compute.java import find_java
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import command_for
from tidegate.errors import ConfigError
from tidegate.events import CleaningDeferred, DirectoriesCleaned, Outcome, VacuumFinished
from tidegate.hive_metastore import MetastoreClient
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

pytestmark = [pytest.mark.judge, pytest.mark.slow, pytest.mark.full]
MINOR, MAJOR = 1, 2
DAYS = 30


def compact(engine: HiveEngine, table: str, kind: int) -> None:
    """Ask for it and wait until Hive's Worker has done it."""
    request = engine.types.CompactionRequest("default", table, None, kind, "test")
    queued = engine.call("compact2", request)

    def is_ready() -> bool:
        with MetastoreClient(engine.settings) as client:
            found = client.queued(queued.id)
        return found is not None and found.is_visible

    wait_for("Hive's Worker", is_ready)


def clean(engine: HiveEngine, event: VacuumFinished) -> Outcome:
    source = SecondSource(engine.settings, readers_lock_at_once=False)
    roots = WarehouseRoots.of(str(Path(event.location).parent))
    cleaner = Cleaner(Warehouse(roots), ThreadMap(2), lambda: datetime.now(UTC), second=source)
    *_, outcome = cleaner.execute(command_for(event, datetime.now(UTC)))
    return outcome


def visible(location: Path) -> list[str]:
    return [name for name in names_in(location) if name[0] not in "._"]


def write(hive: HiveSession, table: str) -> None:
    hive.run(
        f"create table {table} (id int, v string) stored as orc"
        " tblproperties ('transactional'='true')"
    )
    hive.run(f"insert into {table} values (1,'a'),(2,'b')")  # noqa: S608 - our name


@pytest.mark.timeout(600)
def test_one_copy_is_left_of_what_hive_overwrote_and_truncated(tmp_path: Path) -> None:
    try:
        if not find_java(17).with_name("javac").exists():
            pytest.skip("a full JDK is needed: it compiles the driver of Hive")
    except ConfigError as error:
        pytest.skip(str(error))
    with (
        own_metastore(tmp_path / "metastore") as metastore,
        hive_session(metastore.uri, tmp_path / "hive") as hive,
    ):
        engine = HiveEngine(metastore)
        hive.start_worker()
        for table in ("copies", "mixed", "emptied"):
            write(hive, table)
        for day in range(DAYS):
            hive.run(f"insert overwrite table copies select {day}, 'day'")
        compact(engine, "copies", MAJOR)
        hive.run("insert overwrite table mixed select 3, 'c'")
        hive.run("insert into mixed values (4,'d')")
        hive.run("insert into mixed values (5,'e')")
        compact(engine, "mixed", MINOR)
        hive.run("truncate table emptied")
        compact(engine, "emptied", MAJOR)
        reads = {
            table: f"select id, v from {table} order by id"  # noqa: S608 - our names
            for table in ("copies", "mixed", "emptied")
        }
        before = {table: hive.run(read) for table, read in reads.items()}
        queued = Queued(engine)
        events = {event.table.split(".")[2]: event for event in queued.vacuums("default")}

        assert before == {
            "copies": [f"{DAYS - 1} day"],
            "mixed": ["3 c", "4 d", "5 e"],
            "emptied": [],
        }
        reader = engine.open_txn()  # it began after the compactions: it holds nothing back
        for table, event in events.items():
            early = event.model_copy(update={"own_transaction_id": reader, "event_id": table})
            assert isinstance(clean(engine, early), CleaningDeferred)
            outcome = clean(engine, event)
            assert isinstance(outcome, DirectoriesCleaned), outcome
            assert outcome.mode == "delete"
            queued.events.append(outcome)
            queued.bridge.take([outcome])
        queued.settle()
        engine.commit(reader)

        after = {table: hive.run(read) for table, read in reads.items()}
        left = {table: visible(metastore.warehouse / table) for table in reads}
        states = {table: queued.state(engine, "default") for table in reads}
        queued.bridge.close()
        engine.close()

    assert after == before
    assert left["copies"] == [f"base_{DAYS + 1:07}"]
    assert left["emptied"] == ["base_0000002"]
    assert [name[:21] for name in left["mixed"]] == ["base_0000002", "delta_0000003_0000004"]
    assert states["copies"] == ["succeeded"] * 3
