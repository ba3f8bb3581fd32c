"""The bridge on a real Metastore: what it publishes, and when it must not."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.bridge_threads import wait_for_threads
from support.hive_engine import HiveEngine, product
from support.metastore import on_both_versions, own_metastore, until_answers
from support.metastore_model import NOON, vacuum
from support.rows import Rows
from support.waiting import wait_for
from support.watched_bridge import Watched, acid_table, compact
from tidegate.coordinator.vacuums import WaitingVacuum
from tidegate.errors import (
    DeliveryError,
    FormatError,
    MetastoreRefusedError,
    MissingInMetastoreError,
    TransientError,
)
from tidegate.events import CleaningReleased, LockReleased, ReleaseReason, VacuumKind
from tidegate.hive_bridge.baseline import Baseline, MetastoreReplacedError
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.describing import describe
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.storage import Storage, normalise

pytestmark = pytest.mark.slow


@pytest.fixture
def watched(engine: HiveEngine) -> Iterator[Watched]:
    made = Watched(engine)
    yield made
    made.bridge.close()


@on_both_versions
def test_a_compaction_is_published_with_its_snapshot_and_its_holds(
    engine: HiveEngine, watched: Watched
) -> None:
    db, location = acid_table(engine)
    aborted = engine.write(db, "orders", commit=False)
    reader = engine.open_txn()
    locked = engine.lock(db, "orders", txn=reader)
    compiling = engine.open_txn()
    txn = compact(engine, db, location)
    later = engine.open_txn()
    later_lock = engine.lock(db, "orders", txn=later)

    [event] = watched.vacuums(db)

    assert (event.table, event.location) == (f"hive.{db}.orders", str(location))
    assert (event.kind, event.own_transaction_id) == (VacuumKind.MINOR, txn or None)
    assert event.directories == (product("delta_0000002_0000004", txn),)
    assert (event.min_write_id, event.max_write_id) == (2, 4)
    assert event.valid_write_ids == f"{db}.orders:4:9223372036854775807::{aborted}"
    # a later reader sees what the compaction made; Hive 3 does not say who is
    beside = {later_lock} if engine.is_hive_3 else set[int]()
    assert {lock.lock_id for lock in event.locks} == {0, locked} | beside
    assert {reader, compiling} <= set(event.open_transactions)
    assert (later in event.open_transactions) == engine.is_hive_3
    assert len(watched.vacuums(db)) == 1  # published once
    for transaction in (reader, compiling, later):
        engine.commit(transaction)


@on_both_versions
def test_every_hold_is_released_when_it_ends_and_none_before(
    engine: HiveEngine, watched: Watched
) -> None:
    """A reader that compiled before the vacuum and locked after it is among them."""
    db, location = acid_table(engine)
    watched.bridge.look()  # what it finds at its first poll may have stalled before
    plain = engine.lock(db, "orders")
    on_database = engine.lock(db)
    compiled, aborts = engine.open_txn(), engine.open_txn()
    compact(engine, db, location)
    [event] = watched.vacuums(db)
    assert {lock.lock_id for lock in event.locks} == {0, plain, on_database}
    assert {compiled, aborts} <= set(event.open_transactions)
    engine.lock(db, "orders", txn=compiled)

    assert watched.releases(db) == []
    engine.unlock(plain)
    engine.commit(compiled)
    engine.abort(aborts)
    found = watched.releases(db)
    engine.unlock(on_database)
    last = watched.releases(db)[len(found) :]

    assert {(e.lock_id, e.transaction_id): e.reconciled for e in found} == {
        (plain, None): False,
        (None, compiled): False,
        (None, aborts): False,
    }
    reasons = {(e.lock_id, e.transaction_id): e.reason for e in found}
    assert reasons[plain, None] is ReleaseReason.UNLOCKED
    assert reasons[None, compiled] is ReleaseReason.COMMITTED
    assert reasons[None, aborts] in {ReleaseReason.ABORTED, ReleaseReason.COMMITTED}
    assert [hold.lock_id for hold in last] == [on_database]


@on_both_versions
def test_a_reader_that_locks_its_tables_one_by_one_holds_until_its_end(
    engine: HiveEngine, watched: Watched
) -> None:
    """Its snapshot is of before the vacuum, whenever it locks this table."""
    db, location = acid_table(engine)
    engine.table(db, "stock")
    reader = engine.open_txn()
    engine.lock(db, "stock", txn=reader)
    compact(engine, db, location)
    [event] = watched.vacuums(db)
    assert reader in event.open_transactions

    assert watched.releases(db) == []
    engine.lock(db, "orders", txn=reader)
    assert watched.releases(db) == []

    engine.commit(reader)
    assert {release.transaction_id for release in watched.releases(db)} == {reader}


@on_both_versions
def test_where_readers_lock_at_once_a_long_query_on_another_table_holds_no_cleaning_back(
    engine: HiveEngine,
) -> None:
    watched = Watched(engine, readers_lock_at_once=True)
    db, location = acid_table(engine)
    engine.table(db, "stock")
    elsewhere, here = engine.open_txn(), engine.open_txn()
    compact(engine, db, location)
    [event] = watched.vacuums(db)
    assert {elsewhere, here} <= set(event.open_transactions)
    assert watched.releases(db) == []

    engine.lock(db, "stock", txn=elsewhere)
    engine.lock(db, "orders", txn=here)

    [found] = watched.releases(db)
    assert (found.lock_id, found.transaction_id) == (None, elsewhere)
    assert found.reason is ReleaseReason.UNLOCKED
    engine.commit(elsewhere)
    engine.commit(here)
    assert {release.transaction_id for release in watched.releases(db)} == {elsewhere, here}
    watched.bridge.close()


@on_both_versions
def test_a_partitions_vacuum_waits_for_its_own_readers(
    engine: HiveEngine, watched: Watched
) -> None:
    db, location = acid_table(engine, partitioned=True)
    for day in ("day=1", "day=2"):
        engine.partition(db, "orders", day)
    here, other = engine.lock(db, "orders", "day=1"), engine.lock(db, "orders", "day=2")
    compact(engine, db, location, "day=1")

    [event] = watched.vacuums(db)

    assert event.partition == "day=1"
    assert {lock.lock_id for lock in event.locks} == {0, here}
    engine.unlock(here)
    engine.unlock(other)
    assert [release.lock_id for release in watched.releases(db)] == [here]


def test_a_reader_that_died_is_released_as_expired(tmp_path: Path) -> None:
    with own_metastore(tmp_path / "metastore", timeout="5s") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        db, location = acid_table(engine)
        compact(engine, db, location)
        dead = engine.open_txn()
        dead_lock = engine.lock(db, "orders")
        watched.bridge.look()
        known = vacuum(
            [dead_lock],
            [dead],
            f"hive.{db}.orders",
            location=str(location),
            own_transaction_id=None,
            metastore=watched.bridge.baseline.name,
        )
        watched.bridge.take([known])

        def both() -> list[LockReleased]:
            found = watched.releases(db)
            return found if len(found) == 2 else []

        found = wait_for("the time-out", both)

        assert {event.lock_id or event.transaction_id for event in found} == {dead, dead_lock}
        assert {event.reason for event in found} == {ReleaseReason.EXPIRED}
        watched.bridge.close()
        engine.close()


def test_a_reader_that_stalled_before_any_vacuum_waited_is_released_as_expired(
    tmp_path: Path,
) -> None:
    """While no vacuum waits, heartbeats count all the same."""
    with own_metastore(tmp_path / "metastore", timeout="10s") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        db, location = acid_table(engine)
        watched.bridge.look()
        settings_asked = watched.calls["get_config_value"]
        stalled = engine.lock(db, "orders")
        until = time.monotonic() + 6
        while time.monotonic() < until:
            watched.bridge.look()
            time.sleep(0.2)
        assert watched.calls["get_config_value"] == settings_asked
        table = f"hive.{db}.orders"
        known = vacuum([stalled], (), table, location=str(location), own_transaction_id=None)
        watched.bridge.take([known])

        [found] = wait_for("the time-out", lambda: watched.releases(db))

        assert (found.lock_id, found.reason) == (stalled, ReleaseReason.EXPIRED)
        watched.bridge.close()
        engine.close()


@pytest.mark.parametrize("in_transaction", [True, False], ids=["a transaction", "a lock alone"])
def test_a_reader_that_expired_before_its_vacuum_was_published_is_not_trusted(
    tmp_path: Path, *, in_transaction: bool
) -> None:
    """It may have stalled, and read on: what it reads is quarantined, not deleted."""
    with own_metastore(tmp_path / "metastore", timeout="5s") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        db, location = acid_table(engine)
        watched.bridge.look()
        reader = engine.open_txn() if in_transaction else None
        lock = engine.lock(db, "orders", txn=reader)
        watched.bridge.look()
        compact(engine, db, location)

        def is_expired() -> bool:
            with MetastoreClient(engine.settings) as client:
                return lock not in {row.lock_id for row in client.locks()}

        wait_for("the time-out", is_expired)
        watched.vacuums(db)

        commands = Rows().handle(*watched.events, at=NOON)
        [command] = [e for e in commands if isinstance(e, CleaningReleased)]
        assert command.after_expiry
        watched.bridge.close()
        engine.close()


@on_both_versions
def test_another_bridge_goes_on_where_the_first_one_was_killed(
    engine: HiveEngine, watched: Watched
) -> None:
    """It has nothing but what is on the topics; what ended meanwhile is marked as reconciled."""
    db, location = acid_table(engine)
    ended, lasting = engine.lock(db, "orders"), engine.lock(db, "orders")
    compact(engine, db, location)
    watched.vacuums(db)
    on_the_topics = list(watched.events)
    engine.unlock(ended)

    other = Watched(engine, watched.bridge.baseline)
    other.bridge.take(on_the_topics)

    assert other.vacuums(db) == []
    [found] = other.releases(db)
    assert (found.lock_id, found.reconciled) == (ended, True)
    engine.unlock(lasting)
    assert [release.lock_id for release in other.releases(db)] == [ended, lasting]
    other.bridge.close()


@on_both_versions
def test_a_broker_that_is_away_delays_a_release_and_loses_none(
    engine: HiveEngine, watched: Watched
) -> None:
    db, location = acid_table(engine)
    watched.bridge.look()
    locked = engine.lock(db, "orders")
    compact(engine, db, location)
    watched.vacuums(db)
    engine.unlock(locked)
    watched.broken = True
    with pytest.raises(DeliveryError):
        watched.bridge.look()
    watched.broken = False

    [found] = watched.releases(db)
    assert (found.lock_id, found.reason) == (locked, ReleaseReason.UNLOCKED)


@on_both_versions
def test_a_table_whose_events_are_refused_is_named_once_and_stalls_no_other(
    engine: HiveEngine, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    tables = [acid_table(engine) for _ in range(2)]
    locks = [engine.lock(db, "orders") for db, _ in tables]
    for db, location in tables:
        compact(engine, db, location)
        watched.vacuums(db)
    (good, _), (bad, bad_location) = tables
    watched.refused_database = bad
    for lock in locks:
        engine.unlock(lock)
    compact(engine, bad, bad_location)

    with caplog.at_level(logging.WARNING):
        found = [watched.releases(good) for _ in range(3)]

    assert [[release.lock_id for release in releases] for releases in found] == [[locks[0]]] * 3
    wait_for_threads(watched.bridge._compactions)
    watched.bridge.look()
    said = [message for message in caplog.messages if bad in message]
    assert len(said) == 2, said  # its release, and its vacuum


def test_a_compaction_whose_table_no_event_can_name_stands_in_no_other_one_s_way(
    engine: HiveEngine, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    odd = engine.database()
    location = engine.table(odd, "my table")
    highest = max(engine.write(odd, "my table") for _ in range(3))
    made = product(f"delta_0000001_{highest:07}", engine.compact(odd, "my table", highest))
    (location / made).mkdir(parents=True)
    db, location = acid_table(engine)
    compact(engine, db, location)

    with caplog.at_level(logging.WARNING):
        assert len(watched.vacuums(db)) == 1
        assert watched.vacuums(odd) == []

    assert len([message for message in caplog.messages if odd in message]) == 1


@on_both_versions
def test_what_cannot_be_published_is_said_once(
    engine: HiveEngine, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    db, location = acid_table(engine)
    highest = engine.write(db, "orders")
    made = product(f"delta_0000001_{highest + 1:07}", engine.compact(db, "orders", highest))
    (location / made).mkdir(parents=True)

    with caplog.at_level(logging.WARNING):
        assert watched.vacuums(db) == []
        assert watched.vacuums(db) == []

    [said] = [message for message in caplog.messages if db in message]
    # Hive 3 does not report the highest write id, and this delta covers no other
    why = "has no directory that it made" if engine.is_hive_3 else "exceeds its highest write id"
    assert why in said


@on_both_versions
def test_a_table_that_is_dropped_or_not_acid_is_refused_by_name(engine: HiveEngine) -> None:
    db, location = acid_table(engine)
    engine.table(db, "plain", acid=False)
    txn = compact(engine, db, location)
    with MetastoreClient(engine.settings) as client:
        [queued] = [compaction for compaction in client.compactions() if compaction.database == db]
        assert describe(queued, client, Storage()).directories == (
            product("delta_0000001_0000003", txn),
        )
        with pytest.raises(FormatError, match="not transactional"):
            describe(replace(queued, table="plain"), client, Storage())
        if not engine.is_hive_3:  # Hive 3's queue does not have it
            with pytest.raises(FormatError, match="exceeds its highest write id 2"):
                describe(replace(queued, highest_write_id=2), client, Storage())
        with pytest.raises(MetastoreRefusedError, match=r"get_partition_by_name"):
            describe(replace(queued, partition="day=9"), client, Storage())
        engine.drop_table(db, "orders")
        with pytest.raises(MissingInMetastoreError, match="get_table_req"):
            describe(queued, client, Storage())


@on_both_versions
def test_a_reader_whose_lock_moved_with_a_rename_holds_the_old_names_vacuum(
    engine: HiveEngine,
) -> None:
    """Its lock is now on another name, but it still reads the directory of the vacuum."""
    watched = Watched(engine, readers_lock_at_once=True)
    db, _ = acid_table(engine)
    location = engine.metastore.warehouse / f"elsewhere_{db}"
    engine.alter(db, location=location)  # a rename does not move what is not below its database
    reader = engine.open_txn()
    lock = engine.lock(db, "orders", txn=reader)
    compact(engine, db, location)
    [event] = watched.vacuums(db)
    engine.alter(db, new_name="sold")
    with MetastoreClient(engine.settings) as client:
        [(name, lock_id)] = [(e.table, e.lock_id) for e in client.locks(db)]
        assert normalise(client.table(db, "sold").location) == event.location
    assert (name, lock_id) == ("sold", lock)

    assert watched.releases(db) == []
    engine.commit(reader)
    ended = {(release.table, release.lock_id) for release in watched.releases(db)}
    assert ended >= {(event.table, None), (event.table, lock)}
    watched.bridge.close()


def test_a_metastore_that_restarts_releases_nothing_that_is_still_held(tmp_path: Path) -> None:
    with own_metastore(tmp_path / "metastore") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        db, location = acid_table(engine)
        locked, reader = engine.lock(db, "orders"), engine.open_txn()
        compact(engine, db, location)
        assert len(watched.vacuums(db)) == 1
        metastore.kill()
        for _ in range(3):
            with pytest.raises(TransientError):
                watched.bridge.look()
        metastore.start()
        until_answers(engine.settings)

        assert watched.releases(db) == []
        engine.close()  # its connection is of before
        engine.commit(reader)
        assert {release.transaction_id for release in watched.releases(db)} == {reader}
        engine.unlock(locked)
        assert {release.lock_id for release in watched.releases(db)} == {None, locked}
        watched.bridge.close()
        engine.close()


def test_a_metastore_that_lost_its_database_releases_nothing(tmp_path: Path) -> None:
    with own_metastore(tmp_path / "one") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        db, location = acid_table(engine)
        engine.lock(db, "orders")
        compact(engine, db, location)
        assert len(watched.vacuums(db)) == 1
        facts, baseline = list(watched.events), watched.bridge.baseline
        watched.bridge.close()
        engine.close()
    with own_metastore(tmp_path / "two") as empty:
        engine = HiveEngine(empty)
        for known in (baseline, Baseline()):  # also one that has lost its own position
            watched = Watched(engine, known)
            watched.bridge.take(facts)
            if known.metastore:
                with pytest.raises(MetastoreReplacedError):
                    watched.bridge.look()
            else:
                watched.bridge.look()
            assert watched.events == []
            watched.bridge.close()
        engine.close()


@pytest.mark.full
def test_a_metastore_that_hangs_in_one_call_delays_only_that_call(tmp_path: Path) -> None:
    """The queue of compactions is asked for on a connection of its own."""
    with own_metastore(tmp_path / "metastore") as metastore:
        engine = HiveEngine(metastore)
        watched = Watched(engine)
        locked = engine.lock("default", "orders")
        watched.bridge.look()
        watched.bridge.take(
            [vacuum(locks=[locked], table="hive.default.orders", own_transaction_id=None)]
        )
        stalled = watched.bridge._queue_client
        pid = metastore.pid
        assert pid is not None

        def hang(*_: object, **__: object) -> tuple[()]:
            raise TransientError("no answer")

        stalled.compactions = hang  # type: ignore[method-assign]
        engine.unlock(locked)
        assert locked in {release.lock_id for release in watched.releases("default")}

        os.kill(pid, signal.SIGSTOP)  # now all of it hangs
        quick = BridgeSettings(uri=metastore.uri, timeout_ms=300, interval_ms=100)
        other = MetastoreBridge(quick, watched._publish, Storage(), Baseline())
        with pytest.raises(TransientError):
            other.look()
        os.kill(pid, signal.SIGCONT)
        other.look()
        other.close()
        watched.bridge.close()
        engine.close()


def test_a_compaction_of_a_restored_metastore_is_published_though_its_ids_were_used(
    engine: HiveEngine,
) -> None:
    """A database that was restored from a backup gives out again what it gave out since."""
    watched = Watched(engine)
    db, location = acid_table(engine)
    compact(engine, db, location)
    [before] = watched.vacuums(db)
    watched.bridge.close()
    accepted = watched.bridge.baseline.accepted("ana", "restored", "1f2e3d4c")

    again = Watched(engine, accepted)
    again.bridge.take([before])
    [after] = again.vacuums(db)
    again.bridge.close()
    repeated = Watched(engine, accepted)
    repeated.bridge.take([before, after])
    assert repeated.vacuums(db) == []
    repeated.bridge.close()

    assert (before.metastore, after.metastore) == (accepted.metastore, accepted.name)
    assert WaitingVacuum.of_event(after, 0).id != WaitingVacuum.of_event(before, 0).id
