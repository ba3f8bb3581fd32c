"""Hive 3 differs: on a real Metastore 3.1.3, with the real cleaner."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator

import pytest

from support.acid import build, names_in
from support.embedded_metastore import HIVE_3
from support.hive_engine import HiveEngine
from support.watched_bridge import Queued, acid_table, compacted, wrote
from tidegate.events import DirectoriesCleaned, VacuumKind
from tidegate.hive_metastore import MetastoreClient

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("metastore", [pytest.param(HIVE_3, id="3.1.3")], indirect=True),
]
READY = "ready for cleaning"


@pytest.fixture
def queued(engine: HiveEngine) -> Iterator[Queued]:
    made = Queued(engine)
    yield made
    made.bridge.close()


def test_a_compaction_is_cleaned_and_stays_in_the_queue_which_blocks_no_other(
    engine: HiveEngine, queued: Queued, caplog: pytest.LogCaptureFixture
) -> None:
    """Hive 3 says neither what it compacted nor its transaction, and has no call to mark it."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    held = engine.lock(db, "orders")
    made = compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    assert event.directories == (made,) == ("delta_0000001_0000003",)
    assert (event.own_transaction_id, event.max_write_id) == (None, 3)
    assert {lock.lock_id for lock in event.locks} == {0, held}
    engine.unlock(held)
    assert [release.lock_id for release in queued.releases(db)] == [held]

    assert isinstance(queued.clean(event), DirectoriesCleaned)
    with caplog.at_level(logging.WARNING):
        queued.settle()
        queued.settle()

    assert names_in(location) == [made]
    assert queued.state(engine, db) == [READY]
    assert queued.calls["mark_cleaned"] == 1
    [said] = [message for message in caplog.messages if "no call to mark" in message]
    assert "Hive's own Cleaner must stay off" in said

    last = wrote(engine, db, location)
    wider = compacted(engine, db, location, (last - 5, last))
    [_, later] = queued.vacuums(db)
    assert later.directories == (wider,)
    assert isinstance(queued.clean(later), DirectoriesCleaned)
    assert names_in(location) == [wider]
    assert queued.state(engine, db) == [READY, READY]
    again = Queued(engine, queued.bridge.baseline)
    again.bridge.take(queued.events)
    assert again.vacuums(db) == []
    again.bridge.close()


@pytest.mark.full
def test_a_base_of_an_insert_overwrite_is_never_taken_for_a_compactions(
    engine: HiveEngine, queued: Queued
) -> None:
    """It may not have committed: to clean by it would delete the only rows there are."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    overwrites = engine.open_txn()
    open_id = engine.write_id(db, "orders", overwrites)
    engine.compact(db, "orders", last, kind=2)
    made = f"base_{last:07}"
    build(location, {made: 30, f"base_{open_id:07}": 10})
    (location / made / "_metadata_acid").write_text('{"dataFormat":"compacted"}')

    [event] = queued.vacuums(db)

    assert (event.kind, event.directories) == (VacuumKind.MAJOR, (made,))
    assert isinstance(queued.clean(event), DirectoriesCleaned)
    assert names_in(location) == [made, f"base_{open_id:07}"]
    engine.abort(overwrites)


@pytest.mark.full
def test_a_compaction_is_not_looked_up_while_another_of_the_same_place_is_under_way(
    engine: HiveEngine, queued: Queued, caplog: pytest.LogCaptureFixture
) -> None:
    """It renames its directories one after the other, and nothing says whose they are."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    request = engine.types.CompactionRequest(db, "orders", None, 1, "test")
    other = engine.call("compact2", request).id
    engine.begin(other)

    with caplog.at_level(logging.WARNING):
        assert queued.vacuums(db) == []

    [said] = [message for message in caplog.messages if db in message]
    assert "another compaction of the same place is running" in said
    engine.end(other, last)
    again = Queued(engine, queued.bridge.baseline)
    assert len(again.vacuums(db)) == 1
    again.bridge.close()


@pytest.mark.full
def test_what_aborted_is_cleaned_though_the_metastore_goes_on_listing_it(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    aborted = engine.aborted_write(db, "orders")
    build(location, {f"delta_{aborted:07}_{aborted:07}_0000": 10})
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    assert event.valid_write_ids == f"{db}.orders:{last}:9223372036854775807::{aborted}"
    assert isinstance(queued.clean(event), DirectoriesCleaned)
    queued.settle()
    shutil.rmtree(location / f"delta_{aborted:07}_{aborted:07}_0000")
    with MetastoreClient(engine.settings) as client:
        valid = client.write_ids(db, "orders", client.transactions().valid())
    assert valid.aborted.firsts == (aborted,)
    assert names_in(location) == [made]
