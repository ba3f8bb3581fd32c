"""Two processes that restore one table at once, one of them overtaken at the worst moment."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from restores.test_restore_crashes import prepare, restore, state_of
from support.hudi_tables import HandMade, at, data_files, timeline_names, warehouse_over
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.errors import TransientError
from tidegate.events import RestoreCompleted, RestoreRejected
from tidegate.events.reasons import Reason
from tidegate.storage import FileInfo
from tidegate.tables.warehouse import MayGo, Move, Warehouse, WarehouseRoots

pytestmark = pytest.mark.slow
REQUESTED = ".restore.requested"


class Overtaken(Warehouse):
    """Lets others in before and after it creates or removes some file."""

    def __init__(self, root: Path, **at_moment: Callable[[], object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.at_moment = at_moment

    def _let_in(self, moment: str) -> None:
        self.at_moment.pop(moment, lambda: None)()

    def create(self, location: str, content: bytes) -> None:
        if location.endswith(".restore.inflight"):
            self._let_in("before_begun")
        super().create(location, content)
        if location.endswith(REQUESTED):
            self._let_in("after_requested")

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        if any(name.endswith(REQUESTED) for name in names):
            self._let_in("before_withdrawn")
        return super().remove_names(folder, names)


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    (tmp_path / "mine").mkdir()
    return prepare(tmp_path / "mine")


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "undisturbed").mkdir()
    table = prepare(tmp_path / "undisturbed")
    restore(table, warehouse_over(table.path.parent), 0)
    return state_of(table)


def other_dies_when(table: HandMade, is_then: Callable[[HandMade], bool]) -> None:
    """Another process restores the table, and dies at the first step at which this is so."""

    def at_step(_number: int) -> None:
        if is_then(table):
            raise Killed

    with pytest.raises(Killed):
        restore(table, Stepwise(table.path.parent, at_step), 1)


def is_begun(table: HandMade) -> bool:
    return any(name.endswith(".restore.inflight") for name in timeline_names(table))


def test_a_restore_that_another_process_resumes_is_not_withdrawn(
    table: HandMade, expected: dict[str, object]
) -> None:
    root = table.path.parent
    mine = Overtaken(root, after_requested=lambda: other_dies_when(table, is_begun))
    with pytest.raises(TransientError):
        restore(table, mine, 0)

    *_, last = restore(table, warehouse_over(root), 2)

    assert isinstance(last, RestoreCompleted)
    assert state_of(table) == expected


def test_a_withdrawn_plan_comes_back_if_another_process_has_begun_it_meanwhile(
    table: HandMade,
) -> None:
    root = table.path.parent
    mine = Overtaken(
        root,
        after_requested=lambda: table.begin(at(9)),
        before_withdrawn=lambda: other_dies_when(table, is_begun),
    )
    with pytest.raises(TransientError):
        restore(table, mine, 0)

    *_, last = restore(table, warehouse_over(root), 2)

    assert isinstance(last, RestoreCompleted)


def test_a_restore_is_withdrawn_if_one_write_took_the_place_of_another_since_its_plan(
    table: HandMade,
) -> None:
    """As many instants as before, but not the same: the plan would miss the new write."""
    before = {name for name in timeline_names(table) if not name.startswith(at(6))}
    rows = data_files(table.path)

    def swapped() -> None:
        for path in table.timeline.glob(f"{at(6)}*"):
            path.unlink()
        table.begin(at(9))

    with pytest.raises(TransientError, match="changed while its restore was being planned"):
        restore(table, Overtaken(table.path.parent, after_requested=swapped), 0)

    left = timeline_names(table) - before
    assert len(left) == 2
    assert all(name.startswith(at(9)) for name in left)
    assert data_files(table.path) == rows


def test_a_restore_that_was_withdrawn_meanwhile_is_not_resumed(table: HandMade) -> None:
    root, before = table.path.parent, data_files(table.path)
    with pytest.raises(Killed):
        restore(table, Stepwise(root, killed_at(2)), 0)
    (requested,) = table.timeline.glob(f"*{REQUESTED}")

    with pytest.raises(TransientError, match="withdrawn"):
        restore(table, Overtaken(root, before_begun=requested.unlink), 1)

    assert not is_begun(table)
    *_, last = restore(table, warehouse_over(root), 2)
    assert isinstance(last, RestoreRejected)
    assert last.reason == Reason.RESTORE_ABANDONED  # nothing was removed: ask again
    assert data_files(table.path) == before


def test_a_metadata_table_that_goes_after_the_other_has_completed_is_not_declared(
    table: HandMade,
) -> None:
    root = table.path.parent

    class Late(Warehouse):
        @contextmanager
        def moving(self, source: str, target: str) -> Generator[Move]:
            with super().moving(source, target) as move:

                def late(name: str, as_name: str, may_go: MayGo) -> bool | None:
                    def overtaken(files: Sequence[FileInfo]) -> bool:
                        may = may_go(files)
                        *_, last = restore(table, warehouse_over(root), 1)
                        assert isinstance(last, RestoreCompleted)
                        return may

                    return move(name, as_name, overtaken)

                yield late

    with pytest.raises(TransientError):
        restore(table, Late(WarehouseRoots.of(str(root))), 0)

    assert "metadata.partitions" not in (table.path / ".hoodie/hoodie.properties").read_text()
    *_, last = restore(table, warehouse_over(root), 2)
    assert isinstance(last, RestoreCompleted)
    assert not (table.path / ".hoodie/metadata").exists()
    assert not list((table.path / ".hoodie/.tidegate/restorer").glob("metadata-*"))
