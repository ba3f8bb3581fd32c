"""A metadata table that is kept, and restores that die, race, or find it changed."""

from __future__ import annotations

import errno
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
    end_of,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.metadata_tables import MetadataTable
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted
from tidegate.hudi import Action, Instant, InstantState, RestoreMetadata, RestorePlanFile
from tidegate.restores import LivenessSettings, Restorer
from tidegate.savepoints import SavepointWriter
from tidegate.tables.warehouse import Moves, Warehouse, WarehouseRoots

pytestmark = pytest.mark.slow

Meanwhile = Callable[[HandMade], object]


def prepare(root: Path) -> HandMade:
    """Four commits, a pending one and a clean; the metadata table has been compacted since."""
    table = four_commits(root / "orders", 9)
    metadata = MetadataTable(table).create("files")
    metadata.delta(at(1))
    metadata.delta(at(2))
    metadata.delta(at(3))
    metadata.build("record_index", f"{'0' * 16}1", f"{at(3)[:12]}50000")
    metadata.declare(["files", "record_index"])
    metadata.delta(at(4), ("files", "record_index"))
    metadata.compact(at(5))
    table.clean(at(6), at(2))
    metadata.delta(at(6))
    table.begin(at(7))
    table.data(at(7), "g1", "p1")
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def restore(table: HandMade, warehouse: Warehouse, hour: int) -> list[Outcome]:
    clock = ticking(NOW + timedelta(hours=hour))
    unwatched = LivenessSettings(watch=timedelta(0))
    restorer = Restorer(warehouse, ThreadMap(threads=1), clock, unwatched)
    return list(restorer.execute(restore_request(table, at(2))))


def state_of(table: HandMade) -> dict[str, object]:
    """The table but for the times of its restore."""
    names = timeline_names(table)
    (done,) = (n for n in names if n.endswith(".restore"))
    instant = done.split(".")[0].split("_")[0]
    metadata = RestoreMetadata.decode((table.timeline / done).read_bytes())
    hidden = (table.path / ".hoodie/.tidegate/restorer").iterdir()
    return {
        "data": data_files(table.path),
        "timeline": {n.replace(instant, "R") for n in names - {done}},
        "metadata table": MetadataTable(table).names(),
        "properties": (table.path / ".hoodie/hoodie.properties").read_bytes(),
        "rolled back": [r.target for r in metadata.rollbacks],
        "aside": [p.name for p in hidden if p.name.startswith("metadata")],
    }


def is_kept(table: HandMade) -> bool:
    properties = (table.path / ".hoodie/hoodie.properties").read_text()
    is_declared = "metadata.partitions=files\n" in properties
    is_there = MetadataTable(table).path.exists()
    assert is_declared or not (is_there or "metadata.partitions" in properties)
    return is_declared and is_there


def is_gone(table: HandMade) -> bool:
    """Nothing of it is left anywhere."""
    hidden = table.path / ".hoodie/.tidegate/restorer"
    return not is_kept(table) and not list(hidden.glob("metadata*"))


def copy_of(table: HandMade, root: Path) -> HandMade:
    shutil.copytree(table.path, root / "orders")
    return HandMade(root / "orders", table.version)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> HandMade:
    return prepare(tmp_path_factory.mktemp("original"))


@pytest.fixture(scope="module")
def undisturbed(
    original: HandMade, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HandMade, int]:
    """A restore without any disturbance, and in how many steps."""
    root = tmp_path_factory.mktemp("undisturbed")
    table = copy_of(original, root)
    counting = Stepwise(root, lambda _: None)
    *_, last = restore(table, counting, 0)
    assert isinstance(last, RestoreCompleted)
    assert last.metadata_table is not None
    assert last.metadata_table.startswith("kept: the rolled-back")
    assert is_kept(table)
    return table, counting.steps


def test_killed_at_any_step_it_is_resumed_to_the_same_end(
    original: HandMade, undisturbed: tuple[HandMade, int], tmp_path: Path
) -> None:
    expected = state_of(undisturbed[0])
    for step in range(1, undisturbed[1] + 1):
        root = tmp_path / f"killed-{step}"
        table = copy_of(original, root)
        with pytest.raises(Killed):
            restore(table, Stepwise(root, killed_at(step)), 0)
        *_, last = restore(table, warehouse_over(root), 1)

        assert isinstance(last, RestoreCompleted), step
        assert state_of(table) == expected, step
        shutil.rmtree(root)


def test_at_no_step_is_a_half_undone_one_in_its_place_or_declared(
    original: HandMade, undisturbed: tuple[HandMade, int], tmp_path: Path
) -> None:
    table = copy_of(original, tmp_path)
    metadata = MetadataTable(table)
    properties = table.path / ".hoodie/hoodie.properties"
    whole = [metadata.names(), MetadataTable(undisturbed[0]).names()]
    seen = set[tuple[bool, bool]]()

    def at_step(_number: int) -> None:
        names = {n for n in metadata.names() if "undone" not in n and not n.endswith(".tmp")}
        is_declared = "metadata.partitions" in properties.read_text()
        assert names in whole or not (names or is_declared)
        seen.add((bool(names), is_declared))

    restore(table, Stepwise(tmp_path, at_step), 0)

    assert seen == {(True, True), (True, False), (False, False)}


def test_killed_again_and_again_it_ends_the_same(
    original: HandMade, undisturbed: tuple[HandMade, int], tmp_path: Path
) -> None:
    table = copy_of(original, tmp_path)
    for hour in range(200):
        try:
            restore(table, Stepwise(tmp_path, killed_at(9)), hour)
            break
        except Killed:
            continue
    restore(table, warehouse_over(tmp_path), 200)

    assert state_of(table) == state_of(undisturbed[0])


def test_two_processes_at_once_never_leave_one_that_is_declared_and_not_there(
    original: HandMade, undisturbed: tuple[HandMade, int], tmp_path: Path
) -> None:
    """One that sleeps between its look and the edit of the properties may take it away again."""
    expected, kept = state_of(undisturbed[0]), 0
    for step in range(1, undisturbed[1] + 1):
        root = tmp_path / f"both-{step}"
        table = copy_of(original, root)

        def other(number: int, table: HandMade = table, at_step: int = step) -> None:
            if number == at_step:
                restore(table, warehouse_over(table.path.parent), 1)

        try:
            restore(table, Stepwise(root, other), 0)
        except TransientError:
            restore(table, warehouse_over(root), 2)

        now = state_of(table)
        is_same = now == expected
        kept += is_same
        properties = table.path / ".hoodie/hoodie.properties"
        if not is_same and "metadata.partitions" not in properties.read_text():
            properties.write_bytes(
                properties.read_bytes() + b"hoodie.table.metadata.partitions=files\n"
            )
            now = state_of(table)
        assert now == expected, step
        shutil.rmtree(root)
    assert kept >= undisturbed[1] - 1


def killed_when(original: HandMade, root: Path, is_then: Callable[[HandMade], bool]) -> HandMade:
    """A table whose restore died at the first step at which this is so."""
    table = copy_of(original, root)

    def at_step(_number: int) -> None:
        if is_then(table):
            raise Killed

    with pytest.raises(Killed):
        restore(table, Stepwise(root, at_step), 0)
    return table


def aside(table: HandMade) -> Path | None:
    found = (table.path / ".hoodie/.tidegate/restorer").glob("metadata-*")
    return next((p for p in found if p.is_dir()), None)


def is_aside(table: HandMade) -> bool:
    return aside(table) is not None


def is_aside_and_seen(table: HandMade) -> bool:
    return any((table.path / ".hoodie/.tidegate/restorer").glob("metadata-*.as-seen"))


def is_half_undone(table: HandMade) -> bool:
    folder = aside(table)
    return folder is not None and not list(folder.glob(f"files/*{at(4)}*"))


def is_put_back(table: HandMade) -> bool:
    return any((MetadataTable(table).path / ".hoodie").glob(".tidegate-undone-*"))


def hudi_built_another(table: HandMade) -> None:
    MetadataTable(table).create("files")


def a_savepoint_was_made(table: HandMade) -> None:
    done = Instant(at(1), Action.SAVEPOINT, InstantState.COMPLETED, end_of(at(59)))
    table.put(done, b"")


def a_clean_was_made(table: HandMade) -> None:
    table.clean(at(8), at(2))


def another_write_began(table: HandMade) -> None:
    table.begin(at(9))


def part_of_it_was_removed(table: HandMade) -> None:
    folder = aside(table)
    assert folder is not None
    next(folder.glob(f"files/*{at(1)}*")).unlink()


def hudi_removed_it(table: HandMade) -> None:
    shutil.rmtree(MetadataTable(table).path)


def hudi_replaced_it(table: HandMade) -> None:
    hudi_removed_it(table)
    hudi_built_another(table)


def hudi_wrote_to_it(table: HandMade) -> None:
    MetadataTable(table).delta(at(9))


@pytest.mark.parametrize(
    ("died", "meanwhile"),
    [
        pytest.param(is_aside, hudi_built_another, id="another was built, aside"),
        pytest.param(is_half_undone, hudi_built_another, id="another was built, half undone"),
        pytest.param(is_aside_and_seen, a_clean_was_made, id="a clean"),
        pytest.param(is_half_undone, a_clean_was_made, id="a clean, half undone"),
        pytest.param(is_put_back, a_clean_was_made, id="a clean, put back"),
        pytest.param(is_aside_and_seen, another_write_began, id="another write"),
        pytest.param(is_aside, part_of_it_was_removed, id="not looked at yet"),
        pytest.param(is_put_back, hudi_wrote_to_it, id="written to, put back"),
        pytest.param(is_put_back, hudi_replaced_it, id="another was built, put back"),
        pytest.param(is_put_back, hudi_removed_it, id="removed, put back"),
    ],
)
def test_it_is_dropped_by_the_resumed_restore_if_meanwhile(
    original: HandMade, tmp_path: Path, died: Callable[[HandMade], bool], meanwhile: Meanwhile
) -> None:
    table = killed_when(original, tmp_path, died)
    meanwhile(table)

    *_, last = restore(table, warehouse_over(tmp_path), 1)

    assert isinstance(last, RestoreCompleted), last
    assert not (last.metadata_table or "").startswith("kept")
    assert is_gone(table)


def test_it_is_dropped_if_a_writer_changed_it_after_the_plan(
    original: HandMade, tmp_path: Path
) -> None:
    table = copy_of(original, tmp_path)

    class Late(Warehouse):
        def create(self, location: str, content: bytes) -> None:
            super().create(location, content)
            if location.endswith(".restore.inflight"):
                MetadataTable(table).log(at(7), "files")

    *_, last = restore(table, Late(WarehouseRoots.of(str(tmp_path))), 0)

    assert isinstance(last, RestoreCompleted)
    assert last.metadata_table is not None
    assert last.metadata_table.startswith("dropped: it was changed while the restore ran")
    assert is_gone(table)


def test_a_line_added_to_the_properties_during_a_move_stays(
    original: HandMade, tmp_path: Path
) -> None:
    table = copy_of(original, tmp_path)
    properties = table.path / ".hoodie/hoodie.properties"

    class Edited(Warehouse):
        @contextmanager
        def moving(self, source: str, target: str) -> Generator[Moves]:
            with properties.open("a") as file:
                file.write("hoodie.table.note=another's\n")
            with super().moving(source, target) as moves:
                yield moves

    *_, last = restore(table, Edited(WarehouseRoots.of(str(tmp_path))), 0)

    assert isinstance(last, RestoreCompleted)
    assert is_kept(table)
    assert properties.read_text().count("=another's\n") == 2


@pytest.mark.parametrize("reason", [errno.EXDEV, errno.EMFILE])
def test_it_is_dropped_where_it_cannot_be_moved(
    original: HandMade, tmp_path: Path, reason: int
) -> None:
    table = copy_of(original, tmp_path)

    class Mounted(Warehouse):
        @contextmanager
        def moving(self, source: str, target: str) -> Generator[Moves]:
            raise OSError(reason, "no rename of directories", source, None, target)
            yield

    *_, last = restore(table, Mounted(WarehouseRoots.of(str(tmp_path))), 0)

    assert isinstance(last, RestoreCompleted)
    assert is_gone(table)


def test_what_was_set_aside_is_removed_if_another_completed_the_restore(
    original: HandMade, tmp_path: Path
) -> None:
    """As Hudi does, without any metadata table."""
    table = killed_when(original, tmp_path, is_half_undone)
    (requested,) = table.timeline.glob("*.restore.requested")
    instant = requested.name.split(".")[0]
    done = Instant(instant, Action.RESTORE, InstantState.COMPLETED, end_of(instant))
    for name in timeline_names(table):
        if name.startswith((at(3), at(4), at(7))):
            (table.timeline / name).unlink()
    table.put(done, RestoreMetadata(instant, 1, ()).encode())

    *_, last = restore(table, warehouse_over(tmp_path), 1)

    assert isinstance(last, RestoreCompleted)
    assert is_gone(table)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kept": ["../x"]}'])
def test_a_foreign_line_in_the_plan_is_not_a_reason_to_keep_it(
    original: HandMade, tmp_path: Path, text: str
) -> None:
    table = killed_when(original, tmp_path, is_aside_and_seen)
    (requested,) = table.timeline.glob("*.restore.requested")
    plan = RestorePlanFile.decode(requested.read_bytes())
    header = dict(plan.header) | {"tidegate.metadata": text}
    requested.write_bytes(RestorePlanFile(plan.instants, plan.savepoint, header).encode())

    *_, last = restore(table, warehouse_over(tmp_path), 1)

    assert isinstance(last, RestoreCompleted)
    assert is_gone(table)
