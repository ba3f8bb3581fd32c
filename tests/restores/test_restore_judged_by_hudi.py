"""The whole of it on tables that real Hudi wrote, with real Hudi on byte copies as the judge."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.hudi_tables import data_files
from support.judged import restore, savepoint, savepoint_files, timeline_of
from support.real_hudi import RealTable, Row, rows
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, RestoreStarted, SavepointCreated
from tidegate.hudi.instant import Action, InstantState
from tidegate.hudi_reader.table import load_table
from tidegate.storage import Storage

CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
}
CLUSTERING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


@dataclass(frozen=True)
class Scene:
    """A table with our savepoint, cleaned by real Hudi and written to since."""

    table: RealTable
    savepoint: str
    kept_rows: list[Row]
    kept_files: set[str]
    ours: dict[str, set[str]]
    theirs: dict[str, set[str]]


PLAIN_9 = pytest.param((9, False), id="version 9")
INDEXED_9 = pytest.param((9, True), id="version 9 with a metadata table")
PLAIN_6 = pytest.param((6, False), id="version 6")
INDEXED_6 = pytest.param((6, True), id="version 6 with a metadata table")
EVERY_KIND = pytest.mark.parametrize(
    "scene", [PLAIN_9, INDEXED_9, PLAIN_6, INDEXED_6], indirect=True
)


@pytest.fixture
def scene(request: pytest.FixtureRequest, hudi: RealHudi) -> Scene:
    version, metadata_table = request.param
    name = f"scene of {version}{' indexed' * metadata_table}"
    return hudi.shared(name, lambda: made(hudi, version, metadata_table=metadata_table))


def made(hudi: RealHudi, version: int, *, metadata_table: bool) -> Scene:
    table = RealTable(hudi, hudi.root / "lake/orders", version, metadata_table)
    table.write(rows(range(6), "first", 1), "insert")
    table.write(rows(range(4), "second", 2))
    kept_rows = table.read()
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    table.write([(50, "p2", 3, "a partition that is new")], "insert")
    twin = table.copy(hudi.root / "twin/orders")
    outcome = savepoint(table, last.timestamp, hudi.parallel_map())
    assert isinstance(outcome, SavepointCreated)
    twin.call("create_savepoint", commit_time=last.timestamp)
    ours, theirs = savepoint_files(table), savepoint_files(twin)
    table.write([(60, "p0", 4, "overwritten")], "insert_overwrite")
    table.write(rows(range(4), "third", 5), more=CLUSTERING)
    table.write(rows(range(4), "fourth", 6), more=CLEANING)
    table.write(rows(range(2), "fifth", 7), more=CLEANING)
    kept_files = {f"{p}/{name}" for p, names in ours.items() for name in names}
    return Scene(table, last.timestamp, kept_rows, kept_files, ours, theirs)


@EVERY_KIND
def test_hudi_lists_our_savepoint_and_would_have_written_the_same(scene: Scene) -> None:
    assert scene.table.savepoints() == [scene.savepoint]
    assert scene.ours == scene.theirs
    assert {partition: len(names) for partition, names in scene.ours.items()} == {
        "p0": 1,
        "p1": 1,
        "p2": 0,
    }


@EVERY_KIND
def test_hudi_s_cleaning_keeps_the_files_of_our_savepoint(scene: Scene) -> None:
    left = data_files(scene.table.path)
    timeline = load_table(Storage(), scene.table.location).timeline

    assert timeline.of_action(Action.CLEAN, InstantState.COMPLETED)
    assert scene.kept_files <= left
    first = timeline.completed_writes[0].timestamp
    assert not [name for name in left if first in name]


@pytest.mark.live("version 9 with a metadata table")
@EVERY_KIND
def test_our_restore_is_hudi_s_own(scene: Scene, lake: Path) -> None:
    ours = scene.table.copy(lake / "ours/orders")
    theirs = scene.table.copy(lake / "theirs/orders")
    assert scene.table.read() != scene.kept_rows

    started, completed = restore(ours, scene.savepoint, scene.table.hudi.parallel_map())
    theirs.call("rollback_to_savepoint", instant_time=scene.savepoint)

    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    assert ours.read() == scene.kept_rows
    assert theirs.read() == scene.kept_rows
    assert data_files(ours.path) == data_files(theirs.path)
    assert timeline_of(ours) == timeline_of(theirs)
    loaded = load_table(Storage(), ours.location)
    assert loaded.properties.version == ours.version
    assert ours.savepoints() == [scene.savepoint]

    ours.write([(0, "p0", 9, "after"), (70, "p2", 9, "after")])
    changed = {row[0]: row for row in scene.kept_rows}
    changed |= {0: (0, "p0", 9, "after"), 70: (70, "p2", 9, "after")}
    assert ours.read() == sorted(changed.values())


@pytest.mark.live("version 6")
@pytest.mark.parametrize("scene", [INDEXED_9, PLAIN_6], indirect=True)
def test_hudi_finishes_what_we_died_in(scene: Scene, lake: Path) -> None:
    table = scene.table.copy(lake / "killed/orders")
    with pytest.raises(Killed):
        restore(table, scene.savepoint, ThreadMap(1), Stepwise(table.path.parent, killed_at(13)))

    table.call("rollback_to_savepoint", instant_time=scene.savepoint)

    assert table.read() == scene.kept_rows
    shutil.rmtree(lake / "killed")


@pytest.mark.parametrize("scene", [INDEXED_9, PLAIN_6], indirect=True)
def test_hudi_finishes_a_pass_that_we_died_in(scene: Scene, lake: Path) -> None:
    """Several instants are unpublished, and some of their files are gone."""
    table = scene.table.copy(lake / "killed/orders")
    before = load_table(Storage(), table.location).timeline
    with pytest.raises(Killed):
        restore(table, scene.savepoint, ThreadMap(1), DiesAmongFiles(table.path.parent))
    after = load_table(Storage(), table.location).timeline
    assert len(before.completed_writes) - len(after.completed_writes) >= 2

    table.call("rollback_to_savepoint", instant_time=scene.savepoint)

    assert table.read() == scene.kept_rows
    table.write([(0, "p0", 9, "after")])
    assert table.read() == [(0, "p0", 9, "after"), *scene.kept_rows[1:]]
    shutil.rmtree(lake / "killed")


class DiesAmongFiles(Stepwise):
    """Dies as soon as it has removed one data file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, lambda _: None)
        self.removed = 0

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        for name in names:
            if self.removed:
                raise Killed
            super().remove_names(folder, [name])
            self.removed += name.endswith(".parquet")
        return 0


def test_a_table_without_partitions_is_kept_and_restored(hudi: RealHudi) -> None:
    table = RealTable(hudi, hudi.root / "lake/orders", 9, metadata_table=False, partitioned=False)
    table.write(rows(range(6), "first", 1), "insert")
    kept = table.read()
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    savepoint(table, last.timestamp, ThreadMap())
    table.write(rows(range(3), "second", 2))

    restore(table, last.timestamp, ThreadMap())

    assert table.savepoints() == [last.timestamp]
    assert table.read() == kept


@pytest.mark.parametrize("version", [9, 6])
def test_like_hudi_s_our_savepoint_keeps_no_file_of_a_write_in_flight(
    hudi: RealHudi, version: int
) -> None:
    """Every completed commit has a savepoint, and a write in between never completed."""
    table = RealTable(hudi, hudi.root / "lake/orders", version, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    table.write([(0, "p0", 2, "in flight")])
    table.write([(1, "p1", 3, "third")])
    loaded = load_table(Storage(), table.location)
    first, in_flight, third = loaded.timeline.completed_writes
    Path(loaded.path_of(in_flight)).unlink()
    twin = table.copy(hudi.root / "twin/orders")
    for commit in (first, third):
        assert isinstance(savepoint(table, commit.timestamp, ThreadMap()), SavepointCreated)
        twin.call("create_savepoint", commit_time=commit.timestamp)

    ours, theirs = (savepoint_files(copy) for copy in (table, twin))

    assert ours == theirs
    assert not [name for names in ours.values() for name in names if in_flight.timestamp in name]


CHANGE_DATA = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}


@pytest.mark.parametrize("version", [9, 6])
def test_change_data_are_part_of_a_savepoint_and_go_with_the_commits_that_wrote_them(
    hudi: RealHudi, version: int
) -> None:
    """Hudi's savepoint has them too; its restore leaves those of the commits that it undoes."""
    table = RealTable(hudi, hudi.root / "lake/orders", version, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert", CHANGE_DATA)
    table.write(rows(range(4), "second", 2), more=CHANGE_DATA)
    kept, before = table.read(), change_data(table)
    last = load_table(Storage(), table.location).timeline.last_completed_write()
    assert last is not None
    table.write(rows(range(3), "third", 3), more=CHANGE_DATA)
    twin = table.copy(hudi.root / "twin/orders")
    savepoint(table, last.timestamp, ThreadMap())
    twin.call("create_savepoint", commit_time=last.timestamp)

    assert savepoint_files(table) == savepoint_files(twin)
    assert change_data(table) > before
    restore(table, last.timestamp, ThreadMap())

    assert change_data(table) == before
    assert table.read() == kept
    table.write([(0, "p0", 9, "after")], more=CHANGE_DATA)
    assert table.read() == [(0, "p0", 9, "after"), *kept[1:]]


def change_data(table: RealTable) -> set[str]:
    return {path.name for path in table.path.rglob("*.cdc") if not path.name.endswith(".crc")}
