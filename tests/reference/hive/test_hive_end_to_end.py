"""Real Hive writes, compacts and reads; our bridge, gate and cleaner clean beside it.

Everything is real: Hive 4.0.1 in a JVM, its Worker, a Metastore, a broker, and our processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acid import names_in
from support.deployment import Deployment
from support.hive_engine import HiveEngine
from support.hive_session import HiveFailedError, HiveSession, hive_session
from support.metastore import own_metastore
from support.waiting import wait_for
from tidegate.compute.java import find_java
from tidegate.errors import ConfigError
from tidegate.events import CleaningReleased, TaskIssued, VacuumFinished
from tidegate.events.wire import Wire, command_of
from tidegate.hive_metastore import MetastoreClient

pytestmark = [pytest.mark.kafka, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]
MINOR, MAJOR = 1, 2
READ = "select id, v from visits order by id"
SETTINGS = """
[bridge.metastore]
uri = "{uri}"
"hive.compaction-cleanup-interval" = "200ms"
"""


class Lake:
    """Hive's table `visits`, and what cleans it."""

    def __init__(self, hive: HiveSession, engine: HiveEngine, deployment: Deployment) -> None:
        self.hive, self.engine, self.deployment = hive, engine, deployment
        self.location = engine.metastore.warehouse / "visits"
        self.files = deployment.folder / "readers"
        self.files.mkdir()

    def names(self) -> list[str]:
        return [name for name in names_in(self.location) if name[0] not in "._"]

    def rows(self) -> list[str]:
        return self.hive.run(READ)

    def reader(self, name: str) -> None:
        """A query that stands still in its first row; other files are not opened by then."""
        go_on = self.files / name
        self.hive.start(name, f"select held(id, '{go_on}'), v from visits")  # noqa: S608 - our name
        wait_for(f"the first row of {name}", (self.files / f"{name}.reached").exists)

    def goes_on(self, name: str) -> list[str]:
        """Let it read the rest; all its rows."""
        (self.files / name).touch()
        return sorted(self.hive.finish(name))

    def compact(self, kind: int) -> None:
        """Ask for it and wait until Hive's Worker has done it."""
        request = self.engine.types.CompactionRequest("default", "visits", None, kind, "test")
        queued = self.engine.call("compact2", request)
        assert queued.accepted, queued
        wait_for("Hive's Worker", lambda: self.state(queued.id) == "ready for cleaning")

    def state(self, compaction_id: int) -> str:
        with MetastoreClient(self.engine.settings) as client:
            found = client.queued(compaction_id)
        assert found is not None
        return found.state

    def states(self) -> list[str]:
        with MetastoreClient(self.engine.settings) as client:
            return [compaction.state for compaction in client.compactions()]

    def vacuums(self) -> list[VacuumFinished]:
        found = self.deployment.events("vacuums")
        return [event for event in found if isinstance(event, VacuumFinished)]

    def releases(self) -> int:
        tasks = [task for task in self.deployment.events("tasks") if isinstance(task, TaskIssued)]
        carried = {task.event_id: command_of(task, Wire()) for task in tasks}  # of repeats, one
        return sum(isinstance(command, CleaningReleased) for command in carried.values())


@pytest.fixture
def lake(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Lake]:
    try:
        if not find_java(17).with_name("javac").exists():
            pytest.skip("a full JDK is needed: it compiles the driver of Hive")
    except ConfigError as error:
        pytest.skip(str(error))
    with own_metastore(tmp_path / "metastore") as metastore:
        engine = HiveEngine(metastore)
        settings = SETTINGS.format(uri=metastore.uri)
        with (
            Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=settings) as deployment,
            hive_session(metastore.uri, tmp_path / "hive") as hive,
        ):
            yield Lake(hive, engine, deployment)
        engine.close()


@pytest.mark.timeout(1200)
def test_hive_reads_the_same_before_while_and_after_its_compactions_are_cleaned(lake: Lake) -> None:
    hive = lake.hive
    hive.run(
        "create table visits (id int, v string) clustered by (id) into 2 buckets stored as orc"
        " tblproperties ('transactional'='true')"
    )
    hive.run("insert into visits values (1,'a'),(2,'b'),(3,'c')")
    hive.run("insert into visits values (4,'d'),(5,'e')")
    hive.run("update visits set v='z' where id=2")
    hive.run("delete from visits where id=3")
    expected = ["1 a", "2 z", "4 d", "5 e"]
    assert lake.rows() == expected
    written = lake.names()
    assert any(name.startswith("delete_delta") for name in written)
    lake.deployment.run("metastore", "bridge", command="bridge")
    lake.deployment.run("coordinator", "gate")
    lake.deployment.run("cleaner", "cleaner")
    hive.start_worker()

    lake.reader("first")
    lake.compact(MINOR)
    [minor] = wait_for("the vacuum", lake.vacuums)
    assert minor.open_transactions or len(minor.locks) > 1
    assert lake.rows() == expected
    made = {*minor.directories}
    assert {*lake.names()} == {*written, *made}
    assert (lake.releases(), lake.states()) == (0, ["ready for cleaning"])

    assert lake.goes_on("first") == expected  # it opened files after the compaction
    wait_for("the cleaning", lambda: {*lake.names()} == made)
    assert lake.rows() == expected
    wait_for("the mark", lambda: lake.states() == ["succeeded"])

    hive.run("insert into visits values (6,'f')")
    expected.append("6 f")
    before = lake.names()
    lake.reader("second")
    lake.compact(MAJOR)
    major = wait_for("the vacuum", lambda: lake.vacuums()[1:])[0]
    assert lake.rows() == expected
    assert {*lake.names()} == {*before, *major.directories}
    assert lake.releases() == 1
    assert lake.goes_on("second") == expected
    wait_for("the cleaning", lambda: lake.names() == [*major.directories])
    assert lake.rows() == expected
    wait_for("the mark", lambda: lake.states() == ["succeeded"] * 2)

    hive.run("insert into visits values (7,'g')")
    expected.append("7 g")
    assert lake.rows() == expected

    # the counter-proof: a reader whose directories go while it reads does fail
    lake.reader("third")
    for name in lake.names():
        shutil.rmtree(lake.location / name)
    with pytest.raises(HiveFailedError):
        lake.goes_on("third")
    assert lake.names() == []
    # and the same query as before is answered from the files, not from a cache of its results
    assert lake.rows() == []
