"""A directory that is looked at between all removals is listed again when it has changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from support.counting import Calls
from tidegate.errors import ReachedByLink
from tidegate.tables.warehouse import OpenFolder, Warehouse, WarehouseRoots, known_directory


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "lake/t/product").mkdir(parents=True)
    (tmp_path / "lake/t/product/a").write_bytes(b"1")
    (tmp_path / "lake/t/product/b").write_bytes(b"22")
    return tmp_path / "lake/t"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what was written just now as written long ago."""
    monkeypatch.setattr(known_directory, "_SETTLED_NS", -3_600_000_000_000)


def look(folder: OpenFolder) -> list[tuple[str, int]] | None:
    found = folder.files_below("product")
    return None if found is None else [(file.name, file.size) for file in found]


@pytest.mark.usefixtures("settled")
def test_what_has_not_changed_is_listed_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listings = Calls.of(monkeypatch, os, "scandir")
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        assert [look(folder) for _ in range(10)] == [[("a", 1), ("b", 2)]] * 10
    assert listings.count == 1


def test_what_was_written_just_now_is_listed_each_time(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system's clock may not have moved on since: a second change would not be seen."""
    listings = Calls.of(monkeypatch, os, "scandir")
    monkeypatch.setattr("time.time_ns", lambda: (table / "product/b").stat().st_ctime_ns)
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        assert [look(folder) for _ in range(10)] == [[("a", 1), ("b", 2)]] * 10
    assert listings.count == 10


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


@pytest.mark.usefixtures("settled")
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


@pytest.mark.usefixtures("settled")
def test_a_directory_that_is_exchanged_with_a_link_is_not_known_by_what_the_link_names(
    table: Path,
) -> None:
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        look(folder)
        (table / "product").rename(table / "moved")
        (table / "product").symlink_to(table / "moved")
        with pytest.raises(ReachedByLink):
            look(folder)


@pytest.mark.usefixtures("settled")
def test_a_name_that_comes_during_the_listing_is_seen_afterwards(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(directory: int) -> object:
        entries = list(real(directory))
        # not by iterdir, which calls scandir from Python 3.13 on
        if len(os.listdir(table / "product")) == len(entries):  # noqa: PTH208
            (table / "product/late").touch()
        return _Listed(entries)

    monkeypatch.setattr("tidegate.storage.local.os.scandir", scandir)
    with Warehouse(WarehouseRoots.of(str(table.parent))).opened(str(table)) as folder:
        assert look(folder) == [("a", 1), ("b", 2)]
        monkeypatch.undo()
        monkeypatch.setattr(known_directory, "_SETTLED_NS", -3_600_000_000_000)
        assert look(folder) == [("a", 1), ("b", 2), ("late", 0)]


class _Listed(list[os.DirEntry[str]]):
    """What scandir gives, already read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
