"""`tidegate bridge metastore` as processes, on a real Kafka and a real Metastore."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.acid import build, names_in
from support.deployment import Deployment, exit_code
from support.hive_engine import HiveEngine
from support.metastore import on_both_versions, own_metastore, until_answers
from support.waiting import wait_for
from tidegate.bridges.position import group_of
from tidegate.cli import app
from tidegate.embedded.process import Child
from tidegate.events import LockReleased, VacuumFinished
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_metastore import MetastoreClient
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Bridged:
    """A deployment with a Metastore; bridges are started by name."""

    def __init__(self, deployment: Deployment, engine: HiveEngine) -> None:
        self.deployment, self.engine = deployment, engine
        self.db = engine.database()
        self.location = engine.table(self.db)

    def bridge(self, name: str) -> Child:
        return self.deployment.run("metastore", name, command="bridge")

    def compact(self) -> int:
        engine, db = self.engine, self.db
        highest = max(engine.write(db, "orders") for _ in range(3))
        for name in (f"{highest:07}_{highest:07}_0000", f"{highest - 2:07}_{highest:07}"):
            if engine.is_hive_3:
                (self.location / f"delta_{name}").mkdir()
        info, txn = engine.compaction(db, "orders", highest)
        if txn:  # as Hive does, before it commits: a bridge may look at once
            (self.location / f"delta_{highest - 2:07}_{highest:07}_v{txn:07}").mkdir()
        engine.finish_compaction(info, txn)
        return txn or highest

    def vacuum(self, txn: int) -> VacuumFinished:
        """Wait until it is published; it is published once."""

        def published() -> list[VacuumFinished]:
            found = self.deployment.events("vacuums")
            return [
                event
                for event in found
                if isinstance(event, VacuumFinished)
                and event.table == self.table  # Hive 3's queue keeps those of other tests
                and (event.own_transaction_id or event.max_write_id) == txn
            ]

        [found] = wait_for(f"the vacuum of transaction {txn}", published)
        return found

    def releases(self) -> list[LockReleased]:
        found = (e for e in self.deployment.events("locks") if isinstance(e, LockReleased))
        return [event for event in found if event.table == self.table and event.lock_id != 0]

    def release_of(self, lock: int) -> LockReleased:
        def published() -> list[LockReleased]:
            return [release for release in self.releases() if release.lock_id == lock]

        return wait_for(f"the release of lock {lock}", published)[0]

    @property
    def table(self) -> str:
        return f"hive.{self.db}.orders"


def deployment_of(servers: str, prefix: str, folder: Path, uri: str) -> Deployment:
    settings = f"""
        [bridge.metastore]
        uri = "{uri}"
        "hive.compaction-cleanup-interval" = "200ms"
        timeout_ms = 2000
    """
    return Deployment(servers, prefix, folder, partitions=3, settings=settings)


@pytest.fixture
def bridged(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, engine: HiveEngine
) -> Iterator[Bridged]:
    uri = engine.settings.uri
    with deployment_of(bootstrap_servers, topic_prefix, tmp_path, uri) as deployment:
        yield Bridged(deployment, engine)


WATCHES, STANDS_BY = "this process watches the Metastore", "this one stands by"


def is_active(bridge: Child) -> bool | None:
    """Whether it said last that it watches; None before it has said anything."""
    text = bridge.log.read_text()
    watches, stands_by = text.rfind(WATCHES), text.rfind(STANDS_BY)
    return None if watches == stands_by else watches > stands_by


@on_both_versions
def test_two_bridges_one_active_and_the_other_takes_over_when_it_is_killed(
    bridged: Bridged,
) -> None:
    """A hold that ended while no bridge watched is published by the second one, as reconciled."""
    engine = bridged.engine
    both = [bridged.bridge("first"), bridged.bridge("second")]
    wait_for("one of the two", lambda: {is_active(e) for e in both} == {True, False})
    kept, early, late = (engine.lock(bridged.db, "orders") for _ in range(3))
    txn = bridged.compact()
    assert {lock.lock_id for lock in bridged.vacuum(txn).locks} == {0, kept, early, late}
    engine.unlock(early)
    bridged.release_of(early)
    [active, standby] = sorted(both, key=lambda queued: bool(is_active(queued)), reverse=True)

    os.kill(active.pid, signal.SIGKILL)
    engine.unlock(late)

    assert bridged.release_of(late).reconciled
    assert is_active(standby)
    assert len([release for release in bridged.releases() if release.lock_id == early]) == 1
    assert kept not in {release.lock_id for release in bridged.releases()}
    bridged.vacuum(bridged.compact())
    bridged.vacuum(txn)  # still published once
    engine.unlock(kept)
    bridged.release_of(kept)
    assert standby.end(signal.SIGTERM, 30)
    assert exit_code(standby) == 0


@on_both_versions
def test_a_bridge_that_was_paused_publishes_nothing_wrong_when_it_goes_on(bridged: Bridged) -> None:
    """It believes that it is active; what it may publish then is still true."""
    engine = bridged.engine
    paused = bridged.bridge("paused")
    ended, kept = engine.lock(bridged.db, "orders"), engine.lock(bridged.db, "orders")
    txn = bridged.compact()
    bridged.vacuum(txn)
    os.kill(paused.pid, signal.SIGSTOP)
    other = bridged.bridge("other")
    wait_for("the other one", lambda: is_active(other))
    engine.unlock(ended)
    bridged.release_of(ended)

    os.kill(paused.pid, signal.SIGCONT)
    wait_for("one of the two", lambda: {is_active(e) for e in (paused, other)} == {True, False})

    later = bridged.compact()
    bridged.vacuum(later)
    bridged.vacuum(txn)
    assert kept not in {release.lock_id for release in bridged.releases()}
    engine.unlock(kept)
    bridged.release_of(kept)


@on_both_versions
def test_a_bridge_that_starts_again_misses_nothing_and_repeats_nothing(bridged: Bridged) -> None:
    engine = bridged.engine
    running = bridged.bridge("one")
    held, ended = engine.lock(bridged.db, "orders"), engine.lock(bridged.db, "orders")
    bridged.vacuum(bridged.compact())
    os.kill(running.pid, signal.SIGKILL)
    exit_code(running)
    engine.unlock(ended)
    missed = bridged.compact()

    bridged.bridge("two")

    assert bridged.release_of(ended).reconciled
    assert held in {lock.lock_id for lock in bridged.vacuum(missed).locks}
    engine.unlock(held)
    bridged.release_of(held)
    vacuums = [e for e in bridged.deployment.events("vacuums") if e.table == bridged.table]
    assert len(vacuums) == 2
    assert sorted(e.lock_id or 0 for e in bridged.releases() if e.lock_id) == sorted([held, ended])


def test_what_was_cleaned_is_marked_in_the_queue_though_the_bridge_was_killed_meanwhile(
    bootstrap_servers: str, topic_prefix: str, engine: HiveEngine
) -> None:
    """Bridge, gate and cleaner, each a process: from the compaction to SHOW COMPACTIONS."""
    root, uri = engine.metastore.warehouse, engine.settings.uri
    with deployment_of(bootstrap_servers, topic_prefix, root, uri) as deployment:
        bridged = Bridged(deployment, engine)
        first = bridged.bridge("first")
        held = engine.lock(bridged.db, "orders")
        highest = max(engine.write(bridged.db, "orders") for _ in range(2))
        names = [f"delta_{number:07}_{number:07}_0000" for number in (highest - 1, highest)]
        build(bridged.location, dict.fromkeys(names, 10))
        txn = engine.compact(bridged.db, "orders", highest)
        made = f"delta_{highest - 1:07}_{highest:07}_v{txn:07}"
        build(bridged.location, {made: 20})
        bridged.vacuum(txn)
        os.kill(first.pid, signal.SIGKILL)
        exit_code(first)
        engine.unlock(held)
        bridged.bridge("second")
        deployment.run("coordinator", "gate")
        deployment.run("cleaner", "cleaner")

        def states() -> list[str]:
            """Two for a moment: the queue and its history are two tables, read one by one."""
            with MetastoreClient(engine.settings) as client:
                return [e.state for e in client.compactions() if e.database == bridged.db]

        wait_for("the mark", lambda: states() == ["succeeded"])
        # what expired while no bridge looked is quarantined
        assert [name for name in names_in(bridged.location) if name[0] != "."] == [made]


@on_both_versions
def test_what_the_bridge_knows_of_its_metastore_is_on_kafka(bridged: Bridged) -> None:
    bridged.bridge("one")
    bridged.vacuum(bridged.compact())
    servers = {"bootstrap.servers": bridged.deployment.servers}
    prefix = bridged.deployment.prefix

    def known() -> Baseline | None:
        part = Partition(f"{prefix}.vacuums", 0)
        found = KafkaMetadata(servers).committed(group_of(prefix), [part]).get(part)
        text = "" if found is None else str(found.metadata)
        start = text.find('{"metastore"')
        return None if start < 0 else Baseline.parse(text[start:])

    baseline = wait_for("the position", known)
    assert baseline.metastore
    assert baseline.high_water_mark > 0


@pytest.mark.full
def test_a_metastore_that_goes_away_is_said_once_and_one_with_another_database_stops_the_bridge(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    first = own_metastore(tmp_path / "metastore")
    with first:
        engine = HiveEngine(first)
        with deployment_of(bootstrap_servers, topic_prefix, tmp_path, first.uri) as deployment:
            bridged = Bridged(deployment, engine)
            running = bridged.bridge("one")
            held = engine.lock(bridged.db, "orders")
            reader = engine.open_txn()
            bridged.vacuum(bridged.compact())
            first.kill()
            away, back = "nothing is published for now", "events are published again"
            wait_for("the log line", lambda: away in running.log.read_text())
            first.start()
            until_answers(engine.settings)
            wait_for("the log line", lambda: back in running.log.read_text())
            assert running.log.read_text().count(away) == 1
            assert bridged.releases() == []
            engine.close()
            engine.commit(reader)
            wait_for("the release", bridged.releases)
            assert held not in {release.lock_id for release in bridged.releases()}

            first.stop()
            shutil.rmtree(first.folder / "database")
            first.start()

            assert exit_code(running, 120) == 1
            assert "it is another Metastore" in running.log.read_text()
            assert held not in {release.lock_id for release in bridged.releases()}
            again = bridged.bridge("two")
            assert exit_code(again, 120) == 1
            assert held not in {release.lock_id for release in bridged.releases()}

            deployment.run("coordinator", "gate")
            settings = str(deployment.settings_file("people", {}))
            command = ("bridge", "accept-metastore", "--reason", "all stopped", "-c", settings)

            def accept(*more: str) -> str:
                answer = CliRunner().invoke(app, [*command, "--requested-by", "ana", *more])
                assert answer.exit_code == 0, answer
                return str(answer.stdout)

            shown = wait_for("the gate", lambda: "1 vacuums of 1 tables" in accept())
            assert shown
            assert held not in {release.lock_id for release in bridged.releases()}
            assert "1 releases were published" in accept("--release", "--execute")
            [found] = [release for release in bridged.releases() if release.lock_id == held]
            assert (found.reason, found.source) == ("expired", "ana (unsigned): all stopped")
            third = bridged.bridge("three")
            wait_for("the bridge", lambda: "accepted by ana (unsigned)" in third.log.read_text())
            wait_for("a look", lambda: is_active(third))
        engine.close()


def test_without_a_metastore_in_the_settings_it_does_not_start(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as deployment:
        child = deployment.run("metastore", command="bridge")
        assert exit_code(child) == 2
        assert "set uri in [bridge.metastore]" in child.log.read_text()
