"""What a cleaning asks of the file system, counted: it grows with what goes, and by little."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support.acid import NOON, build
from support.counting import Calls
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, DirectoriesCleaned, VacuumKind
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

if TYPE_CHECKING:
    import pytest

_CALLS = ("scandir", "open", "stat", "fstat", "unlink", "rmdir")
FILES = 2
"""Of each directory: its bucket and the version file."""


def table_of(location: Path, deltas: int) -> CleaningReleased:
    """Inserts of so many transactions, and the delta that a minor vacuum merged them into."""
    product = f"delta_0000001_{deltas:07d}"
    inserts = [f"delta_{n:07d}_{n:07d}_0000" for n in range(1, deltas + 1)]
    build(location, dict.fromkeys((product, *inserts), 9))
    return CleaningReleased(
        table="hive.sales.orders",
        location=str(location),
        occurred_at=NOON,
        source="test",
        caused_by="test",
        kind=VacuumKind.MINOR,
        directories=(product,),
        min_write_id=1,
        max_write_id=deltas,
        valid_write_ids=f"sales.orders:{deltas}:{2**63 - 1}::",
    )


def cleaned(folder: Path, deltas: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Clean a table of so many deltas; count the calls."""
    command = table_of(folder / str(deltas), deltas)
    warehouse = Warehouse(WarehouseRoots.of(str(folder)))
    with monkeypatch.context() as patch:
        calls = {name: Calls.of(patch, os, name) for name in _CALLS}
        *_, last = Cleaner(warehouse, ThreadMap(1), lambda: NOON).execute(command)
    assert isinstance(last, DirectoriesCleaned)
    assert len(last.directories) == deltas
    return {name: call.count for name, call in calls.items()}


def test_a_directory_and_its_product_are_listed_and_each_file_unlinked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the plan, once before it goes; its product is listed before each removal, too."""
    few, many = (cleaned(tmp_path, size, monkeypatch) for size in (20, 60))
    calls = {name: (many[name] - few[name]) / 40 for name in _CALLS}
    assert calls == {
        "scandir": 2 + 1,
        "open": 2 + 1,
        "fstat": 1,
        "stat": 0,
        "unlink": FILES,
        "rmdir": 1,
    }
    assert few["scandir"] <= 3 * 20 + 10


def test_nothing_obsolete_costs_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = table_of(tmp_path / "t", 20)
    cleaner = Cleaner(Warehouse(WarehouseRoots.of(str(tmp_path))), ThreadMap(1), lambda: NOON)
    list(cleaner.execute(command))
    listings = Calls.of(monkeypatch, os, "scandir")
    [outcome] = cleaner.execute(command)
    assert isinstance(outcome, DirectoriesCleaned)
    assert listings.count == 2  # the table, and the product in it


class _Asked:
    """An entry of a listing that counts the system calls that it makes."""

    def __init__(self, entry: os.DirEntry[str], asked: list[str]) -> None:
        self._entry, self._asked, self.name = entry, asked, entry.name

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        self._asked.append(self.name)
        return self._entry.stat(follow_symlinks=follow_symlinks)

    def __getattr__(self, name: str) -> object:  # what kind it is costs no call
        return getattr(self._entry, name)


def planned(folder: Path, deltas: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Plan the cleaning of a table of so many deltas; count the calls."""
    command = table_of(folder / str(deltas), deltas)
    warehouse, asked, scandir = Warehouse(WarehouseRoots.of(str(folder))), list[str](), os.scandir

    @contextmanager
    def counted(directory: int) -> Generator[Iterator[_Asked]]:
        with scandir(directory) as entries:
            yield (_Asked(entry, asked) for entry in entries)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", counted)
        calls = {name: Calls.of(patch, os, name) for name in (*_CALLS, "close", "lstat", "listdir")}
        plan = Cleaner(warehouse, ThreadMap(1), lambda: NOON).plan(command)
    assert len(plan.remove) == deltas
    return {name: call.count for name, call in calls.items()} | {"stat of an entry": len(asked)}


def test_a_plan_opens_and_lists_each_directory_once_and_asks_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the names directly in the table once: little more than a bare walk."""
    few, many = (planned(tmp_path, size, monkeypatch) for size in (20, 60))
    calls = {name: (many[name] - few[name]) / 40 for name in few if many[name] != few[name]}
    assert calls == {"open": 1, "scandir": 1, "close": 1, "stat of an entry": FILES + 1}
