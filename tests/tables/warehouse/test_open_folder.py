"""Directories that are removed only if they are as expected: local ones by descriptors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.descriptors import open_below
from tidegate.errors import ConfinementError, ReachedByLink
from tidegate.storage import FileInfo, NotFound
from tidegate.tables.warehouse import Warehouse, WarehouseRoots


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "lake/t/delta/deep/deeper").mkdir(parents=True)
    (tmp_path / "lake/t/delta/deep/deeper/b").write_bytes(b"22")
    (tmp_path / "lake/t/delta/a").write_bytes(b"1")
    return tmp_path / "lake/t"


@pytest.fixture
def warehouse(table: Path) -> Warehouse:
    return Warehouse(WarehouseRoots.of(str(table.parent)))


def names(found: Sequence[FileInfo] | None) -> list[str] | None:
    return None if found is None else [info.name for info in found]


def test_what_appears_after_the_look_is_looked_at_before_it_goes(
    warehouse: Warehouse, table: Path
) -> None:
    """Else an unknown file of a writer would go with the approved ones."""
    seen: list[list[str] | None] = []

    def agree_to_known(found: Sequence[FileInfo]) -> bool:
        seen.append(names(found))
        (table / "delta/late").touch()
        return "late" not in (names(found) or ())

    with warehouse.opened(str(table)) as folder:
        assert not folder.remove_if("delta", agree_to_known)
    assert seen == [["a", "b"], ["b", "late"]]
    assert (table / "delta/late").exists()
    assert (table / "delta/deep/deeper/b").exists()


def test_a_file_that_appears_in_a_directory_below_after_the_last_look_stays(
    warehouse: Warehouse, table: Path
) -> None:
    looks: list[list[str] | None] = []

    def agree_to_known(found: Sequence[FileInfo]) -> bool:
        looks.append(names(found))
        if len(looks) == 2:  # after the look at what the first attempt left
            (table / "delta/deep/deeper/late").touch()
        return "late" not in (names(found) or ())

    with warehouse.opened(str(table)) as folder:
        assert not folder.remove_if("delta", agree_to_known)
    assert looks == [["a", "b"], ["b"], ["late"]]
    assert [path.name for path in table.rglob("*") if path.is_file()] == ["late"]


def test_a_folder_that_was_replaced_while_it_was_open_is_left_alone(
    warehouse: Warehouse, table: Path
) -> None:
    with warehouse.opened(str(table)) as folder:
        table.rename(table.parent / "moved")
        (table / "delta").mkdir(parents=True)
        (table / "delta/new").touch()
        assert folder.remove_if("delta", lambda found: "new" not in (names(found) or ()))
    assert (table / "delta/new").exists()
    assert not (table.parent / "moved/delta").exists()


def test_a_link_is_refused_and_links_inside_go_without_what_they_name(
    warehouse: Warehouse, table: Path
) -> None:
    (table / "kept").mkdir()
    (table / "kept/file").touch()
    (table / "link").symlink_to(table / "kept")
    (table / "delta/link").symlink_to(table / "kept")
    (table / "outside").symlink_to(table.parent.parent)
    with warehouse.opened(str(table)) as folder:
        for look in (folder.files_below, lambda name: folder.remove_if(name, lambda _: True)):
            with pytest.raises(ReachedByLink):
                look("link")
            with pytest.raises(ConfinementError):
                look("outside")
        assert folder.remove_if("delta", lambda _: True)
    assert (table / "kept/file").exists()
    assert (table / "link").is_symlink()


def test_a_file_of_that_name_is_not_a_directory_to_remove(
    warehouse: Warehouse, table: Path
) -> None:
    (table / "file").touch()
    with warehouse.opened(str(table)) as folder:
        assert folder.files_below("file") is None
        assert folder.remove_if("file", lambda _: True)
    assert (table / "file").exists()


def test_another_file_system_that_is_mounted_there_is_not_entered(
    warehouse: Warehouse, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat
    mounted = (table / "delta").stat().st_ino

    def fstat(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        return os.stat_result((*found[:2], found.st_dev + (found.st_ino == mounted), *found[3:]))

    monkeypatch.setattr(os, "fstat", fstat)
    with warehouse.opened(str(table)) as folder, pytest.raises(OSError, match="mounted here"):
        folder.remove_if("delta", lambda _: True)
    assert (table / "delta/a").exists()


def test_an_error_names_the_whole_path(
    warehouse: Warehouse, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, *, dir_fd: int) -> None:  # noqa: ARG001 - unlink's
        raise PermissionError(13, "the disk is read-only", name)

    monkeypatch.setattr(os, "unlink", refuse)
    with warehouse.opened(str(table)) as folder, pytest.raises(OSError, match=f"{table}/delta"):
        folder.remove_if("delta", lambda _: True)


def test_only_a_directory_below_the_roots_is_opened(warehouse: Warehouse, table: Path) -> None:
    with pytest.raises(NotFound), warehouse.opened(f"{table}/none"):
        pass
    for outside in (str(table.parent), str(table.parent.parent / "x")):
        with pytest.raises(ConfinementError), warehouse.opened(outside):
            pass


def test_a_directory_is_freed_after_its_removal_without_the_parents_lock(
    warehouse: Warehouse, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freed by rmdir itself, directories of one parent would be freed one after the other."""
    was_open: list[bool] = []
    real = os.rmdir

    def rmdir(name: str, *, dir_fd: int) -> None:
        was_open.append(f"{table}/{name}" in open_below(table))
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", rmdir)
    (table / "flat").mkdir()
    (table / "flat/a").touch()
    with warehouse.opened(str(table)) as folder:
        assert folder.remove_if("flat", lambda _: True)
        assert str(table) in open_below(table)
    assert was_open == [True]
    assert open_below(table) == []
