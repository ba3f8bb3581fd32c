"""Directories are moved by one rename, from and to open directories, never over another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.acid import build, tree
from tidegate.errors import ConfinementError, TransientError
from tidegate.storage import FileInfo, NotFound
from tidegate.tables.warehouse import Warehouse, WarehouseRoots


@pytest.fixture
def root(tmp_path: Path) -> Path:
    build(tmp_path / "wh" / "from", {"one": 3, "two": 4})
    (tmp_path / "wh" / "to").mkdir()
    return tmp_path / "wh"


@pytest.fixture
def warehouse(root: Path) -> Warehouse:
    return Warehouse(WarehouseRoots.of(str(root)))


def always(_: Sequence[FileInfo]) -> bool:
    return True


def test_a_directory_is_moved_with_all_that_is_in_it(root: Path, warehouse: Warehouse) -> None:
    before = tree(root / "from" / "one")
    seen: list[str] = []

    def note(found: Sequence[FileInfo]) -> bool:
        seen.extend(move.name for move in found)
        return True

    with warehouse.moving(f"{root}/from", f"{root}/to") as move:
        assert move("one", "one", note)
        assert move("one", "one", always) is None
        assert move("two", "two", lambda _: False) is False
        assert move("two", "2", always)
    assert seen == ["_orc_acid_version", "bucket_00000"]
    assert tree(root / "to" / "one") == before
    assert sorted(path.name for path in (root / "to").iterdir()) == ["2", "one"]


def test_nothing_is_moved_over_a_name_not_even_an_empty_directory(
    root: Path, warehouse: Warehouse
) -> None:
    (root / "to" / "one").mkdir()
    with (
        warehouse.moving(f"{root}/from", f"{root}/to") as move,
        pytest.raises(FileExistsError, match="to/one"),
    ):
        move("one", "one", always)
    assert (root / "from" / "one" / "bucket_00000").exists()


def test_what_was_put_in_its_place_after_the_look_is_moved_back(
    root: Path, warehouse: Warehouse
) -> None:
    def exchange(_: Sequence[FileInfo]) -> bool:
        (root / "from" / "one").rename(root / "from" / "moved")
        build(root / "from", {"one": 77})
        return True

    with (
        warehouse.moving(f"{root}/from", f"{root}/to") as move,
        pytest.raises(TransientError, match="exchanged"),
    ):
        move("one", "one", exchange)
    assert (root / "from" / "one" / "bucket_00000").stat().st_size == 77
    assert list((root / "to").iterdir()) == []


@pytest.mark.parametrize("linked", ["from/one", "from", "to"])
def test_no_link_is_followed(linked: str, root: Path, warehouse: Warehouse, tmp_path: Path) -> None:
    (root / linked).rename(tmp_path / "elsewhere")
    (root / linked).symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path)
    with pytest.raises(ConfinementError), warehouse.moving(f"{root}/from", f"{root}/to") as move:
        move("one", "one", always)
    assert tree(tmp_path) == before


def test_a_place_that_is_not_there_or_not_below_the_roots_is_named(
    root: Path, warehouse: Warehouse
) -> None:
    with pytest.raises(NotFound, match="gone"), warehouse.moving(f"{root}/gone", f"{root}/to"):
        pass
    with pytest.raises(ConfinementError), warehouse.moving(f"{root}/from", "/elsewhere"):
        pass


def test_only_an_empty_directory_is_removed(root: Path, warehouse: Warehouse) -> None:
    assert warehouse.remove_if_empty(f"{root}/to")
    assert not (root / "to").exists()
    assert warehouse.remove_if_empty(f"{root}/to")
    assert not warehouse.remove_if_empty(f"{root}/from")
    assert (root / "from" / "one" / "bucket_00000").exists()
