"""What a command costs grows with what it changes: counted in operations, not in seconds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    end_of,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted
from tidegate.hudi_reader.partitions import PartitionFiles, list_partitions
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import FileInfo, ParallelMap
from tidegate.storage.store import MAX_READ
from tidegate.tables.warehouse import Warehouse

T = TypeVar("T")
R = TypeVar("R")


class Counting(Warehouse):
    """Counts what is asked of the storage, by the kind of file."""

    def __init__(self, root: Path) -> None:
        super().__init__(warehouse_over(root).roots)
        self.counts = Counter[str]()

    def list(self, location: str) -> list[FileInfo]:
        self.counts["timeline listed" if location.endswith("/timeline") else "listed"] += 1
        return super().list(location)

    def names(self, location: str) -> Sequence[str]:
        self.counts["timeline listed" if location.endswith("/timeline") else "listed"] += 1
        return super().names(location)

    def read(self, location: str, limit: int = MAX_READ) -> bytes:
        self.counts[location.rpartition(".")[2] + " read"] += 1
        return super().read(location, limit)


def table_of(root: Path, commits: int) -> HandMade:
    table = HandMade(root / "orders").create()
    previous = None
    for minute in range(1, commits + 1):
        table.commit(at(minute), previous)
        previous = at(minute)
    return table


def savepoint(table: HandMade, counting: Warehouse) -> None:
    writer = SavepointWriter(counting, ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(1))))


def restore(table: HandMade, counting: Warehouse, parallel_map: ParallelMap | None = None) -> None:
    savepoint(table, warehouse_over(table.path.parent))
    clock, unwatched = ticking(NOW + timedelta(minutes=1)), RestoreSettings(watch_seconds=0)
    restorer = Restorer(counting, parallel_map or ThreadMap(), clock, unwatched)
    command = restore_request(table, at(1), seen_up_to=end_of(at(59)))
    assert isinstance(list(restorer.execute(command))[-1], RestoreCompleted)


@pytest.mark.parametrize("work", [savepoint, restore])
def test_the_timeline_is_listed_as_often_over_many_commits_as_over_few(
    tmp_path: Path, work: Callable[[HandMade, Warehouse], None]
) -> None:
    few, many = Counting(tmp_path / "few"), Counting(tmp_path / "many")

    work(table_of(tmp_path / "few", 4), few)
    work(table_of(tmp_path / "many", 40), many)

    assert many.counts["timeline listed"] == few.counts["timeline listed"] <= 11
    assert many.counts["listed"] == few.counts["listed"]


def test_a_restore_makes_as_many_system_calls_for_a_fiftieth_commit_as_for_a_tenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()

    def counting(name: str) -> None:
        really = getattr(os, name)

        def counted(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
            calls[name] += 1
            return really(*args, **options)

        monkeypatch.setattr(os, name, counted)

    def of_a_restore(commits: int) -> Counter[str]:
        table = table_of(tmp_path / str(commits), commits)
        calls.clear()
        restore(table, warehouse_over(table.path.parent))
        return calls.copy()

    of_a_restore(2)  # what is done once a process
    for name in ("open", "stat", "unlink", "scandir", "fsync", "rmdir"):
        counting(name)
    some, more, most = (of_a_restore(commits) for commits in (10, 30, 50))

    assert most - more == more - some
    assert more["unlink"] - some["unlink"] >= 20


def test_a_restore_is_as_many_parallel_jobs_over_many_commits_as_over_few(tmp_path: Path) -> None:
    """Two that list, and one that removes the files of all commits: a Spark job takes a while."""

    class Jobs(ThreadMap):
        def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
            jobs.append(len(items))
            return super().map(function, items)

    for commits in (4, 20):
        jobs = list[int]()
        root = tmp_path / str(commits)

        restore(table_of(root, commits), warehouse_over(root), Jobs())

        assert len(jobs) == 3


def test_a_restore_reads_each_commit_once_and_no_rollback(tmp_path: Path) -> None:
    counting = Counting(tmp_path)

    restore(table_of(tmp_path, 40), counting)

    assert counting.counts["commit read"] == 39
    assert not counting.counts["rollback read"]


def test_each_data_file_is_looked_at_as_often_over_many_commits_as_over_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the plan, by its name: else a restore over all commits costs their square."""
    looks = Counter[str]()

    class Looking(Mapping[str, int]):
        """Counts the names that are passed."""

        def __init__(self, sizes: Mapping[str, int]) -> None:
            self.sizes = sizes

        def __getitem__(self, name: str) -> int:
            return self.sizes[name]

        def __len__(self) -> int:
            return len(self.sizes)

        def __iter__(self) -> Iterator[str]:
            looks["names"] += len(self.sizes)
            return iter(self.sizes)

    def looked_at(commits: int) -> float:
        looks.clear()
        table = table_of(tmp_path / str(commits), commits)
        restore(table, warehouse_over(table.path.parent))
        return looks["names"] / commits

    def watched(*args: Any) -> tuple[PartitionFiles, ...]:  # noqa: ANN401 - passed on
        return tuple(PartitionFiles(p.path, Looking(p.sizes)) for p in list_partitions(*args))

    monkeypatch.setattr("tidegate.restores.preparation.list_partitions", watched)
    few, many = looked_at(4), looked_at(40)
    assert 0 < many <= few
