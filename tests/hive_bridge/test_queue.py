"""A cleaned compaction is marked in the queue: on a real Metastore, with the real cleaner."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acid import build, names_in
from support.hive_engine import REBALANCE, HiveEngine
from support.watched_bridge import Queued, acid_table, compacted, wrote
from tidegate.events import CleaningRefused, DirectoriesCleaned

pytestmark = pytest.mark.slow
READY, SUCCEEDED = "ready for cleaning", "succeeded"


@pytest.fixture
def queued(engine: HiveEngine) -> Iterator[Queued]:
    made = Queued(engine)
    yield made
    made.bridge.close()


def test_a_compaction_is_marked_when_its_cleaning_is_done_and_not_before(
    engine: HiveEngine, queued: Queued
) -> None:
    """Until then Hive refuses to compact the table again; after it, the next one may begin."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    queued.settle()
    assert queued.state(engine, db) == [READY]

    assert isinstance(queued.clean(event), DirectoriesCleaned)
    queued.settle()

    assert queued.state(engine, db) == [SUCCEEDED]
    assert (queued.marks, queued.calls["mark_cleaned"]) == (1, 1)
    assert queued.calls["show_locks"] == len(queued.seen)
    assert names_in(location) == [made]
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    assert queued.state(engine, db) == [SUCCEEDED, READY]


def test_a_rebalance_is_published_and_marked_though_its_row_proves_no_commit(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    txn = engine.compact(db, "orders", last, kind=REBALANCE)
    made = f"base_{last:07}_v{txn:07}"
    build(location, {made: 30})
    reader = engine.open_txn()
    [event] = queued.vacuums(db)
    engine.commit(reader)

    outcome = queued.clean(event)
    queued.settle()

    assert reader in event.open_transactions  # it may have begun before the commit
    assert isinstance(outcome, DirectoriesCleaned)
    assert (names_in(location), queued.state(engine, db)) == ([made], [SUCCEEDED])


def test_a_bridge_that_starts_again_marks_what_was_cleaned_meanwhile_and_marks_it_once(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    queued.clean(event)  # and the bridge dies before its next look

    for _ in range(2):
        other = Queued(engine, queued.bridge.baseline)
        other.bridge.take(queued.events)
        other.settle()
        assert queued.state(engine, db) == [SUCCEEDED]
        assert not [event for event in other.events if f".{db}." in event.table]
        other.bridge.close()


def test_a_refused_cleaning_blocks_the_entry_until_a_later_one_has_done_its_work(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    (location / made / "bucket_00000").unlink()
    refused = queued.clean(event)
    assert isinstance(refused, CleaningRefused)
    queued.settle()
    assert queued.state(engine, db) == [READY]
    shutil.rmtree(location / made)

    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 5, last))
    [_, later] = queued.vacuums(db)
    assert isinstance(queued.clean(later), DirectoriesCleaned)
    queued.settle()

    assert queued.state(engine, db) == [SUCCEEDED, SUCCEEDED]


def test_what_a_later_vacuum_superseded_is_marked_too(engine: HiveEngine, queued: Queued) -> None:
    """Its own cleaning has not been released yet: the later one's has done its work."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 5, last))
    both = queued.vacuums(db)

    queued.clean(max(both, key=lambda entry: entry.max_write_id))
    queued.settle()

    assert queued.state(engine, db) == [SUCCEEDED, SUCCEEDED]


def test_an_entry_stays_while_a_directory_of_an_aborted_write_is_left(
    engine: HiveEngine, queued: Queued, caplog: pytest.LogCaptureFixture
) -> None:
    """A mark makes the Metastore forget that it aborted: every reader would see its rows."""
    db, location = acid_table(engine)
    aborted = engine.aborted_write(db, "orders")
    left = f"delta_{aborted:07}_{aborted:07}_0000"
    build(location, {left: 10})
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    assert isinstance(queued.clean(event), DirectoriesCleaned)
    with caplog.at_level(logging.WARNING):
        queued.settle()
        queued.settle()
    assert queued.state(engine, db) == [READY]
    [said] = [message for message in caplog.messages if db in message]
    assert f"{left} is there, with rows of an aborted write" in said

    shutil.rmtree(location / left)
    again = Queued(engine, queued.bridge.baseline)
    again.bridge.take(queued.events)
    again.settle()

    assert queued.state(engine, db) == [SUCCEEDED]
    again.bridge.close()


def test_a_dropped_table_leaves_no_entry_behind(engine: HiveEngine, queued: Queued) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    engine.drop_table(db, "orders")
    shutil.rmtree(location, ignore_errors=True)

    assert isinstance(queued.clean(event), CleaningRefused)
    queued.settle()

    assert queued.state(engine, db) == []  # the Metastore itself removes it


def test_a_dropped_partition_leaves_no_entry_behind(engine: HiveEngine, queued: Queued) -> None:
    db, location = acid_table(engine, partitioned=True)
    engine.partition(db, "orders", "day=1")
    last = wrote(engine, db, location / "day=1")
    compacted(engine, db, location / "day=1", (last - 2, last), "day=1")
    [event] = queued.vacuums(db)
    engine.drop_partition(db, "orders", "day=1")

    assert isinstance(queued.clean(event), CleaningRefused)
    queued.settle()

    assert queued.state(engine, db, "day=1") == []


def test_a_renamed_table_is_published_under_its_new_name_and_cleaned_there(
    engine: HiveEngine, queued: Queued
) -> None:
    """The Metastore renames the entry too, and moves the directory."""
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))
    [old] = queued.vacuums(db)
    engine.alter(db, new_name="sold")

    [_, new] = queued.vacuums(db)
    assert new.table == f"hive.{db}.sold"
    assert new.location != old.location
    assert isinstance(queued.clean(old), CleaningRefused)
    queued.settle()
    assert queued.state(engine, db) == [READY]
    assert isinstance(queued.clean(new), DirectoriesCleaned)
    queued.settle()

    assert queued.state(engine, db) == [SUCCEEDED]
    assert names_in(Path(new.location)) == [made]


def test_a_table_that_moved_is_marked_only_if_nothing_is_left_in_its_new_place(
    engine: HiveEngine, queued: Queued
) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    made = compacted(engine, db, location, (last - 2, last))
    [event] = queued.vacuums(db)
    elsewhere = location.parent / "elsewhere"
    shutil.copytree(location, elsewhere)
    engine.alter(db, location=elsewhere)

    assert isinstance(queued.clean(event), DirectoriesCleaned)  # where it was compacted
    queued.settle()
    assert queued.state(engine, db) == [READY]
    for name in names_in(elsewhere):
        if name != made:
            shutil.rmtree(elsewhere / name)
    again = Queued(engine, queued.bridge.baseline)
    again.bridge.take(queued.events)
    again.settle()

    assert queued.state(engine, db) == [SUCCEEDED]
    again.bridge.close()


def test_a_table_with_no_cleanup_is_not_cleaned_until_the_property_is_gone(
    engine: HiveEngine, queued: Queued, caplog: pytest.LogCaptureFixture
) -> None:
    db, location = acid_table(engine)
    last = wrote(engine, db, location)
    compacted(engine, db, location, (last - 2, last))
    engine.alter(db, properties={"NO_CLEANUP": "true"})

    with caplog.at_level(logging.WARNING):
        assert queued.vacuums(db) == []
        assert queued.vacuums(db) == []
    [said] = [message for message in caplog.messages if db in message]
    assert "NO_CLEANUP" in said
    engine.alter(db, properties={"NO_CLEANUP": "false"})
    again = Queued(engine, queued.bridge.baseline)

    assert len(again.vacuums(db)) == 1
    again.bridge.close()
