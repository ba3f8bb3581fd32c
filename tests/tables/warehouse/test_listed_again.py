"""A directory of an open folder is listed as it is now."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.errors import ReachedByLink
from tidegate.tables.warehouse import OpenFolder, Warehouse, WarehouseRoots


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "lake/t/product").mkdir(parents=True)
    (tmp_path / "lake/t/product/a").write_bytes(b"1")
    (tmp_path / "lake/t/product/b").write_bytes(b"22")
    return tmp_path / "lake/t"


def look(folder: OpenFolder) -> list[tuple[str, int]] | None:
    found = folder.files_below("product")
    return None if found is None else [(file.name, file.size) for file in found]


def rewritten(product: Path) -> None:
    """Of the same size, and with the same time of modification."""
    times = (product / "b").stat()
    (product / "b").unlink()
    (product / "b").write_bytes(b"333")
    os.utime(product / "b", ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced(product: Path) -> None:
    shutil.copytree(product, product.parent / "other")
    shutil.rmtree(product)
    (product.parent / "other").rename(product)
    (product / "b").write_bytes(b"333")


def deeper(product: Path) -> None:
    (product / "c").mkdir()
    (product / "c/d").touch()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda p: (p / "b").unlink(), [("a", 1)], id="a file is gone"),
        pytest.param(
            lambda p: (p / "c").touch(), [("a", 1), ("b", 2), ("c", 0)], id="a file is new"
        ),
        pytest.param(
            lambda p: (p / "b").write_bytes(b"333"), [("a", 1), ("b", 3)], id="a file is longer"
        ),
        pytest.param(rewritten, [("a", 1), ("b", 3)], id="a file is another"),
        pytest.param(replaced, [("a", 1), ("b", 3)], id="the directory is another"),
        pytest.param(deeper, [("a", 1), ("b", 2), ("d", 0)], id="a directory is new"),
        pytest.param(shutil.rmtree, None, id="the directory is gone"),
    ],
)
def test_every_change_is_seen(
    change: Callable[[Path], object], expected: list[tuple[str, int]] | None, table: Path
) -> None:
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        assert look(folder) == [("a", 1), ("b", 2)]
        change(table / "product")
        assert look(folder) == expected
        assert look(folder) == expected


def test_a_directory_that_is_exchanged_with_a_link_is_refused(table: Path) -> None:
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        look(folder)
        (table / "product").rename(table / "moved")
        (table / "product").symlink_to(table / "moved")
        with pytest.raises(ReachedByLink):
            look(folder)
