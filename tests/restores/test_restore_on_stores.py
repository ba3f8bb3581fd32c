"""Savepoints and restores of tables that real Hudi wrote to HDFS and S3, with its verdict."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.hudi_records import RealHudi
from support.judged import restore, savepoint
from support.merge_on_read import CLEANED, COMPACTED, SCHEDULED
from support.real_hudi import RealTable, Row, rows
from support.s3 import BUCKET, s3_server, use_s3a
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestoreStarted, SavepointCreated
from tidegate.hudi.properties import METADATA_PARTITIONS
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.storage import Storage

pytestmark = [
    pytest.mark.spark,
    pytest.mark.judge,
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.timeout(1200),  # MinIO is built once
]
STEPS = 10
"""A restore takes more, so it was resumed in the middle."""
ASIDE = ".hoodie/.tidegate/restorer/metadata-"


@dataclass(frozen=True)
class Place:
    """A warehouse, and another client of it."""

    root: str
    """As Hudi's writers name it."""
    options: Mapping[str, Mapping[str, Any]]
    files: Callable[[], list[str]]
    """The files of the table, as the other client lists them."""
    remove: Callable[[str], object]
    """Removes a file of the table."""

    def stepwise(self, at_step: Callable[[int], None]) -> Stepwise:
        return Stepwise(self.root, at_step, self.options)


@pytest.fixture(params=["hdfs", "s3a"])
def place(request: pytest.FixtureRequest, live_hudi: RealHudi) -> Generator[Place]:
    if request.param == "hdfs":
        lake = request.getfixturevalue("hdfs").lake
        yield Place(
            f"{lake.address}/wh",
            {},
            lambda: lake.all_files("/wh/orders"),
            lambda name: lake.remove(f"/wh/orders/{name}"),
        )
        return
    with s3_server("minio") as server:
        use_s3a(live_hudi.session(), server)
        above = "wh/orders/"
        yield Place(
            f"s3a://{BUCKET}/wh",
            server.options(),
            lambda: [key[len(above) :] for key in server.all_keys() if not key.endswith("/")],
            lambda name: server.client().delete_object(Bucket=BUCKET, Key=above + name),
        )


@dataclass(frozen=True)
class Elsewhere(RealTable):
    """A table of a place."""

    root: str = ""

    @property
    def location(self) -> str:
        return f"{self.root}/orders"


@dataclass(frozen=True)
class Scene:
    """A table with our savepoint, written to, compacted and cleaned by real Hudi since."""

    place: Place
    table: Elsewhere
    savepoint: str
    kept: list[Row]

    def loaded(self) -> HudiTable:
        return load_table(Storage(self.place.options), self.table.location)


@pytest.fixture(params=[False, True], ids=["copy-on-write", "merge-on-read"])
def scene(
    request: pytest.FixtureRequest, place: Place, live_hudi: RealHudi, tmp_path: Path
) -> Scene:
    is_mor = bool(request.param)
    compacted = COMPACTED if is_mor else {}
    table = Elsewhere(
        live_hudi, tmp_path, 9, metadata_table=True, merge_on_read=is_mor, root=place.root
    )
    table.write(rows(range(6), "first", 1), "insert")
    table.write(rows(range(4), "second", 2), more=compacted)
    table.write([(0, "p0", 3, "third")])
    made = Scene(place, table, "", table.read())
    last = made.loaded().timeline.last_completed_write()
    assert last is not None
    created = savepoint(table, last.timestamp, ThreadMap(), place.stepwise(lambda _: None))
    assert isinstance(created, SavepointCreated)
    table.write(rows(range(4), "fourth", 4), more=compacted | CLEANED)
    table.write([(60, "p0", 5, "overwritten")], "insert_overwrite")
    table.write([(50, "p2", 6, "a partition that is new")], more=SCHEDULED if is_mor else {})
    table.write([(50, "p2", 7, "in flight"), (1, "p1", 7, "in flight")])
    now = made.loaded()
    place.remove(now.path_of(now.timeline.completed_writes[-1]).partition("/orders/")[2])
    return Scene(place, table, last.timestamp, made.kept)


def check_restored(scene: Scene, ts: int) -> None:
    table = scene.table
    assert table.read() == scene.kept
    assert table.savepoints() == [scene.savepoint]
    files = scene.place.files()
    assert not [name for name in files if name.startswith((".hoodie/metadata/", ASIDE))]
    assert [name for name in files if name.startswith(".hoodie/.tidegate/tasks/")]
    table.write([(0, "p0", ts, "after"), (70, "p2", ts, "after")])
    changed = {row[0]: row for row in scene.kept}
    changed |= {0: (0, "p0", ts, "after"), 70: (70, "p2", ts, "after")}
    assert table.read() == sorted(changed.values())
    assert METADATA_PARTITIONS[0] in scene.loaded().properties.values


def test_hudi_reads_back_the_rows_of_a_savepoint_and_writes_on(scene: Scene) -> None:
    table, place = scene.table, scene.place
    assert table.savepoints() == [scene.savepoint]
    assert table.read() != scene.kept

    renamed = list[bool]()

    def look(_step: int) -> None:
        renamed.append(any(name.startswith(ASIDE) for name in place.files()))

    watched = place.stepwise(look)
    started, completed = restore(table, scene.savepoint, ThreadMap(1), watched)

    # an object store has no renames
    assert any(renamed) == watched.can(table.location).renames
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    check_restored(scene, 9)

    # again, by processes that die, each a step later than the one before
    outcomes, deaths = list[Outcome](), 0
    while not outcomes:
        dying = place.stepwise(killed_at(deaths + 1))
        try:
            outcomes = list(restore(table, scene.savepoint, ThreadMap(1), dying))
        except Killed:
            deaths += 1
    assert isinstance(outcomes[-1], RestoreCompleted)
    assert deaths > STEPS
    check_restored(scene, 10)
