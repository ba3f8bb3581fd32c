"""A tenant exchanges its directory with a link to another table's while it is worked on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from support.link_swaps import swapping
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TidegateError
from tidegate.storage import Storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

SECONDS = 1.5


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A tenant's partition `mine/p`, a victim's of the same shape, and a link to that."""
    root = tmp_path / "lake"
    fill(root / "mine/p", b"mine")
    fill(root / "victim/p", b"victim")
    (root / "mine/link").symlink_to(root / "victim/p")
    return root


def fill(partition: Path, content: bytes) -> None:
    (partition / "deep").mkdir(parents=True, exist_ok=True)
    for name in ("file", "deep/file", content.decode()):
        (partition / name).write_bytes(content)


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def attack(lake: Path, act: Callable[[str], object]) -> int:
    """Call `act` on the tenant's partition while it is exchanged; give how often it worked."""
    worked, end = 0, time.monotonic() + SECONDS
    with swapping(lake / "mine/p", lake / "mine/link") as swaps:
        while time.monotonic() < end:
            with suppress(TidegateError, OSError):
                act(f"{lake}/mine/p")
                worked += 1
            with suppress(OSError):
                if not (lake / "mine/p").is_symlink():
                    (lake / "mine/p/deep").mkdir(exist_ok=True)
    assert swaps.count > 20, "the directory was hardly exchanged"
    return worked


def remove_if_there(warehouse: Warehouse, location: str, name: str) -> None:
    with warehouse.opened(location) as folder:
        folder.remove_if(name, lambda _: True)


WRITES = pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda w, at: w.create(f"{at}/new-{time.monotonic_ns()}", b""), id="create"),
        pytest.param(lambda w, at: w.create(f"{at}/a{time.monotonic_ns()}/b", b""), id="folders"),
        pytest.param(lambda w, at: w.replace(f"{at}/file", b"new"), id="replace"),
        pytest.param(lambda w, at: w.remove_files([f"{at}/deep/file"]), id="remove files"),
        pytest.param(
            lambda w, at: w.remove_with_checksums({f"{at}/deep": ["file"] * 99}, ThreadMap()),
            id="remove many files",
        ),
        pytest.param(lambda w, at: w.remove_tree(f"{at}/deep"), id="remove a tree"),
        pytest.param(lambda w, at: remove_if_there(w, at, "deep"), id="remove what was looked at"),
    ],
)


@WRITES
def test_no_write_or_removal_reaches_another_table_through_an_exchanged_link(
    lake: Path, act: Callable[[Warehouse, str], object]
) -> None:
    warehouse = Warehouse(WarehouseRoots.of(str(lake)))
    before = tree(lake / "victim")
    worked = attack(lake, lambda at: act(warehouse, at))

    assert worked > 0
    assert tree(lake / "victim") == before


@pytest.mark.parametrize("kind", ["warehouse", "reader"])
def test_no_read_shows_another_tables_files_through_an_exchanged_link(
    lake: Path, kind: str
) -> None:
    roots = WarehouseRoots.of(str(lake))
    storage = Warehouse(roots) if kind == "warehouse" else Storage(confined_to=roots.roots)
    seen: set[object] = set()

    def look(at: str) -> None:
        seen.update(info.name for info in storage.walk(at))
        seen.add(storage.read(f"{at}/file"))
        for rows in storage.walk_each(at, ["deep"], ThreadMap(1)):
            seen.update(row[0] for row in rows or ())
        for rows in storage.walk_each(at.rpartition("/")[0], ["p"], ThreadMap(1)):
            seen.update(row[0] for row in rows or ())

    assert attack(lake, look) > 0
    assert seen == {"file", "mine", b"mine"}
