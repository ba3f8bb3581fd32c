"""A restore dies at every single step it takes on the disk, and is asked for again."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    data_files,
    four_commits,
    merge_on_read,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted, RestoreStarted
from tidegate.hudi.rollback import RestoreMetadata
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.warehouse import Move, Warehouse, WarehouseRoots

pytestmark = pytest.mark.slow


PROPERTIES = {"hoodie__table__metadata__partitions": "files"}


def copy_on_write(root: Path, version: int) -> HandMade:
    table = four_commits(root / "orders", version, **PROPERTIES)
    table.replace(at(5), {"p0": ["g0"]}, {"p0": "g2"})
    table.begin(at(6))
    table.data(at(6), "g1", "p1")
    return table


def log_files(root: Path, version: int) -> HandMade:
    return merge_on_read(root / "orders", version, **PROPERTIES)


Kind = tuple[Callable[[Path, int], HandMade], int]
EVERY_KIND = pytest.mark.parametrize(
    "kind",
    [
        pytest.param((copy_on_write, 9), id="copy-on-write 9"),
        pytest.param((copy_on_write, 6), id="copy-on-write 6"),
        pytest.param((log_files, 9), id="merge-on-read 9"),
        pytest.param((log_files, 6), id="merge-on-read 6"),
    ],
)


def prepare(root: Path, kind: Kind = (copy_on_write, 9)) -> HandMade:
    write, version = kind
    table = write(root, version)
    metadata = table.path / ".hoodie/metadata/files"
    metadata.mkdir(parents=True)
    (metadata / "x.hfile").touch()
    (table.path / f".hoodie/.temp/{at(6)}").mkdir(parents=True)
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def restore(table: HandMade, warehouse: Warehouse, hour: int) -> list[Outcome]:
    clock = ticking(NOW + timedelta(hours=hour))
    unwatched = RestoreSettings(watch_seconds=0)
    restorer = Restorer(warehouse, ThreadMap(threads=1), clock, unwatched)
    return list(restorer.execute(restore_request(table, at(2))))


def state_of(table: HandMade) -> dict[str, object]:
    """All of a table but the times at which its restore was at work."""
    names = timeline_names(table)
    (done,) = (n for n in names if n.endswith(".restore"))
    instant = done.split(".")[0].split("_")[0]
    metadata = RestoreMetadata.decode((table.timeline / done).read_bytes())
    # a draft of a write that died is hidden and harmless: no reader of the table looks at it
    files = [p for p in table.path.rglob("*") if p.is_file() and p.suffix != ".tmp"]
    everything = {re.sub("[0-9a-f-]{36}", "ID", str(p.relative_to(table.path))) for p in files}
    return {
        "data": data_files(table.path),
        "timeline": {n.replace(instant, "R") for n in names - {done}},
        "elsewhere": {f for f in everything if "/2026" not in f and "/.2026" not in f},
        "properties": (table.path / ".hoodie/hoodie.properties").read_bytes(),
        # the files of an attempt that died are missing there; Hudi uses them for a metadata table
        "rolled back": [r.target for r in metadata.rollbacks],
        "temporary": sorted(p.name for p in (table.path / ".hoodie/.temp").iterdir()),
    }


def copy_of(table: HandMade, root: Path) -> HandMade:
    shutil.copytree(table.path, root / "orders")
    return HandMade(root / "orders", table.version)


def no_step(_number: int) -> None:
    """Just count."""


@EVERY_KIND
def test_a_restore_killed_at_any_step_is_resumed_to_the_same_end(
    tmp_path: Path, kind: Kind
) -> None:
    original = prepare(tmp_path / "original", kind)
    undisturbed = copy_of(original, tmp_path / "undisturbed")
    counting = Stepwise(tmp_path / "undisturbed", no_step)
    restore(undisturbed, counting, 0)
    expected = state_of(undisturbed)
    assert counting.steps > 40

    for step in range(1, counting.steps + 1):
        root = tmp_path / f"killed-{step}"
        table = copy_of(original, root)
        with pytest.raises(Killed):
            restore(table, Stepwise(root, killed_at(step)), 0)
        outcomes = restore(table, warehouse_over(root), 1)

        assert isinstance(outcomes[-1], RestoreCompleted), step
        assert state_of(table) == expected, step
        shutil.rmtree(root)


@EVERY_KIND
def test_a_restore_killed_again_and_again_still_ends_the_same(tmp_path: Path, kind: Kind) -> None:
    original = prepare(tmp_path / "original", kind)
    undisturbed = copy_of(original, tmp_path / "undisturbed")
    restore(undisturbed, warehouse_over(tmp_path / "undisturbed"), 0)
    table = copy_of(original, tmp_path / "killed")

    for hour in range(200):
        try:
            outcomes = restore(table, Stepwise(tmp_path / "killed", killed_at(8)), hour)
            break
        except Killed:
            continue
    else:
        outcomes = restore(table, warehouse_over(tmp_path / "killed"), 200)

    assert isinstance(outcomes[-1], RestoreCompleted)
    assert state_of(table) == state_of(undisturbed)


def test_a_resumed_restore_says_so_and_keeps_its_plan(tmp_path: Path) -> None:
    table = prepare(tmp_path)
    with pytest.raises(Killed):
        restore(table, Stepwise(tmp_path, killed_at(30)), 0)

    started, completed = restore(table, warehouse_over(tmp_path), 1)

    assert isinstance(started, RestoreStarted)
    assert started.resumed
    assert [i.instant for i in started.instants] == [at(6), at(5), at(4), at(3)]
    assert started.files == 6
    assert isinstance(completed, RestoreCompleted)
    assert completed.files_deleted == 6


@EVERY_KIND
def test_two_processes_at_once_end_with_one_restore(tmp_path: Path, kind: Kind) -> None:
    original = prepare(tmp_path / "original", kind)
    undisturbed = copy_of(original, tmp_path / "undisturbed")
    counting = Stepwise(tmp_path / "undisturbed", no_step)
    restore(undisturbed, counting, 0)
    expected = state_of(undisturbed)

    for step in range(1, counting.steps + 1):
        root = tmp_path / f"both-{step}"
        table = copy_of(original, root)

        def other(number: int, table: HandMade = table, at_step: int = step) -> None:
            if number == at_step:
                restore(table, warehouse_over(table.path.parent), 1)

        try:
            restore(table, Stepwise(root, other), 0)
        except TransientError:
            restore(table, warehouse_over(root), 2)

        assert state_of(table) == expected, step
        shutil.rmtree(root)


class Sleepy(Warehouse):
    """Sleeps before it puts its restore inflight, while `meanwhile` happens."""

    def __init__(self, root: Path, meanwhile: Callable[[], object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.meanwhile = meanwhile

    def create(self, location: str, content: bytes) -> None:
        if location.endswith(".restore.inflight"):
            self.meanwhile()
        super().create(location, content)


def test_who_slept_while_another_finished_leaves_a_new_metadata_table_alone(tmp_path: Path) -> None:
    table = prepare(tmp_path)
    properties = table.path / ".hoodie/hoodie.properties"
    before = properties.read_text()

    def meanwhile() -> None:
        restore(table, warehouse_over(tmp_path), 1)
        properties.write_text(before)
        (table.path / ".hoodie/metadata/files").mkdir(parents=True)

    with pytest.raises(TransientError):
        restore(table, Sleepy(tmp_path, meanwhile), 0)

    assert properties.read_text() == before
    assert (table.path / ".hoodie/metadata/files").exists()


def test_no_part_of_a_metadata_table_is_left_by_a_death_within_its_removal(tmp_path: Path) -> None:
    """Hudi, resuming the restore, would take a part of it for a metadata table."""
    table = prepare(tmp_path)
    removed: list[Path] = []

    class Watched(Warehouse):
        def remove_tree(self, location: str) -> None:
            if (Path(location) / "files/x.hfile").exists():
                removed.append(Path(location))
            super().remove_tree(location)

    restore(table, Watched(WarehouseRoots.of(str(tmp_path))), 0)

    [where] = removed
    assert where.name.startswith("metadata-")
    assert where.parent == table.path / ".hoodie/.tidegate/restorer"
    assert not where.exists()
    assert not (table.path / ".hoodie/metadata").exists()


@pytest.mark.parametrize("reason", [errno.EXDEV, errno.EMFILE])
def test_a_metadata_table_that_cannot_be_moved_is_removed_where_it_is(
    tmp_path: Path, reason: int
) -> None:
    """On overlays and mounted object stores. Hudi uses no part of it without its timeline."""
    table = prepare(tmp_path)
    removed = list[str]()

    class Mounted(Warehouse):
        @contextmanager
        def moving(self, source: str, target: str) -> Generator[Move]:
            raise OSError(reason, "no rename of directories", source, None, target)
            yield

        def remove_tree(self, location: str) -> None:
            removed.append(str(Path(location).relative_to(table.path)))
            super().remove_tree(location)

    restore(table, Mounted(WarehouseRoots.of(str(tmp_path))), 0)

    assert not (table.path / ".hoodie/metadata").exists()
    of_it = [path for path in removed if path.startswith(".hoodie/metadata")]
    assert of_it == [".hoodie/metadata/.hoodie", ".hoodie/metadata"]
