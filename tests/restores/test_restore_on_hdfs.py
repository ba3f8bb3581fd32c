"""Savepoints and restores of tables that real Hudi wrote to a real HDFS, with its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from support.hdfs import Cluster, Hdfs
from support.hudi_records import RealHudi
from support.judged import restore, savepoint
from support.merge_on_read import CLEANED, COMPACTED, SCHEDULED, loaded
from support.real_hudi import RealTable, Row, rows
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestoreStarted, SavepointCreated
from tidegate.hudi.properties import METADATA_PARTITIONS

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]
STEPS = 10
"""A restore takes more, so it was resumed in the middle."""
ASIDE = ".hoodie/.tidegate/restorer/metadata-"


@dataclass(frozen=True)
class OnHdfs(RealTable):
    """A table of a cluster."""

    address: str = ""

    @property
    def location(self) -> str:
        return f"{self.address}/wh/orders"


@dataclass(frozen=True)
class Scene:
    """A table with our savepoint, written to, compacted and cleaned by real Hudi since."""

    cluster: Cluster
    table: OnHdfs
    savepoint: str
    kept: list[Row]


@pytest.fixture(params=[False, True], ids=["copy-on-write", "merge-on-read"])
def scene(request: pytest.FixtureRequest, hdfs: Hdfs, live_hudi: RealHudi, tmp_path: Path) -> Scene:
    cluster, is_mor = hdfs.lake, bool(request.param)
    compacted = COMPACTED if is_mor else {}
    table = OnHdfs(
        live_hudi, tmp_path, 9, metadata_table=True, merge_on_read=is_mor, address=cluster.address
    )
    table.write(rows(range(6), "first", 1), "insert")
    table.write(rows(range(4), "second", 2), more=compacted)
    table.write([(0, "p0", 3, "third")])
    kept, last = table.read(), loaded(table).timeline.last_completed_write()
    assert last is not None
    created = savepoint(table, last.timestamp, ThreadMap(), cluster.warehouse())
    assert isinstance(created, SavepointCreated)
    table.write(rows(range(4), "fourth", 4), more=compacted | CLEANED)
    table.write([(60, "p0", 5, "overwritten")], "insert_overwrite")
    table.write([(50, "p2", 6, "a partition that is new")], more=SCHEDULED if is_mor else {})
    table.write([(50, "p2", 7, "in flight"), (1, "p1", 7, "in flight")])
    now = loaded(table)
    cluster.remove(now.path_of(now.timeline.completed_writes[-1])[len(cluster.address) :])
    return Scene(cluster, table, last.timestamp, kept)


def check_restored(scene: Scene, ts: int) -> None:
    table = scene.table
    assert table.read() == scene.kept
    assert table.savepoints() == [scene.savepoint]
    files = scene.cluster.all_files("/wh/orders")
    assert not [name for name in files if name.startswith((".hoodie/metadata/", ASIDE))]
    assert [name for name in files if name.startswith(".hoodie/.tidegate/tasks/")]
    table.write([(0, "p0", ts, "after"), (70, "p2", ts, "after")])
    changed = {row[0]: row for row in scene.kept}
    changed |= {0: (0, "p0", ts, "after"), 70: (70, "p2", ts, "after")}
    assert table.read() == sorted(changed.values())
    assert METADATA_PARTITIONS[0] in loaded(table).properties.values


def test_hudi_reads_back_the_rows_of_a_savepoint_and_writes_on(scene: Scene) -> None:
    table, cluster = scene.table, scene.cluster
    assert table.savepoints() == [scene.savepoint]
    assert table.read() != scene.kept

    renamed = list[bool]()

    def look(_step: int) -> None:
        renamed.append(bool(cluster.files.globStatus(cluster.path(f"/wh/orders/{ASIDE}*"))))

    watched = Stepwise(f"{cluster.address}/wh", look)
    started, completed = restore(table, scene.savepoint, ThreadMap(1), watched)

    assert any(renamed), "the metadata table was removed file by file"
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    check_restored(scene, 9)

    # again, by processes that die, each a step later than the one before
    outcomes, deaths = list[Outcome](), 0
    while not outcomes:
        dying = Stepwise(f"{cluster.address}/wh", killed_at(deaths + 1))
        try:
            outcomes = list(restore(table, scene.savepoint, ThreadMap(1), dying))
        except Killed:
            deaths += 1
    assert isinstance(outcomes[-1], RestoreCompleted)
    assert deaths > STEPS
    check_restored(scene, 10)
