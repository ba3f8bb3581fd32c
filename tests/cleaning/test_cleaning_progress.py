"""A large cleaning says now and then how far it is; a small or a fast one says nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from support.acid import NOON, NOTHING_OPEN, build, names_in, release
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import (
    CleaningProgressed,
    CleaningReleased,
    CleaningStarted,
    DirectoriesCleaned,
    Outcome,
)
from tidegate.storage import ParallelMap
from tidegate.tables.progress import while_working
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

T = TypeVar("T")
R = TypeVar("R")
INSERTS = 250
AT_ONCE = timedelta(milliseconds=5)


class HalfWay:
    """Works on the first batch of a removal, then waits until its report is read."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        first = function(items[0])
        is_listing = isinstance(items[0], list) and isinstance(items[0][0], str)
        if len(items) > 1 and not is_listing:
            assert self.go_on.wait(60)
        return [first, *map(function, items[1:])]


def cleaned(folder: Path, parallel_map: ParallelMap, every: timedelta) -> Iterator[Outcome]:
    command, warehouse = large_cleaning(folder)
    cleaner = Cleaner(warehouse, parallel_map, lambda: NOON, progress_every=every)
    return cleaner.execute(command)


def large_cleaning(folder: Path) -> tuple[CleaningReleased, Warehouse]:
    product = f"delta_0000001_{INSERTS:07d}"
    inserts = {f"delta_{n:07d}_{n:07d}_0000": 10 for n in range(1, INSERTS + 1)}
    table = build(folder / "t", {**inserts, product: 100})
    ids = f"default.table_txn_001:{INSERTS}:{NOTHING_OPEN}::"
    command = release(str(table), directories=(product,), max_write_id=INSERTS, valid_write_ids=ids)
    return command, Warehouse(WarehouseRoots.of(str(folder)))


def test_it_says_how_many_directories_are_gone(tmp_path: Path) -> None:
    half_way = HalfWay()
    outcomes: list[Outcome] = []
    for outcome in cleaned(tmp_path, half_way, AT_ONCE):
        outcomes.append(outcome)
        if isinstance(outcome, CleaningProgressed) and outcome.directories_done >= 100:
            half_way.go_on.set()

    assert isinstance(outcomes[0], CleaningStarted)
    assert isinstance(outcomes[-1], DirectoriesCleaned)
    progress = [outcome for outcome in outcomes if isinstance(outcome, CleaningProgressed)]
    assert {report.directories_total for report in progress} == {INSERTS}
    assert {report.files_total for report in progress} == {outcomes[0].files}
    done = [report.directories_done for report in progress]
    assert done == sorted(set(done))
    assert all(0 < count < INSERTS for count in done)
    assert [report.files_done for report in progress] == [2 * count for count in done]
    assert len({outcome.event_id for outcome in outcomes}) == len(outcomes)
    assert names_in(tmp_path / "t") == [f"delta_0000001_{INSERTS:07d}"]


def test_a_fast_one_says_nothing_in_between(tmp_path: Path) -> None:
    outcomes = list(cleaned(tmp_path, ThreadMap(), timedelta(minutes=5)))

    assert [type(outcome) for outcome in outcomes] == [CleaningStarted, DirectoriesCleaned]


def test_what_the_work_raises_is_raised_and_a_time_out_of_its_own_ends_it() -> None:
    def failing() -> None:
        raise TimeoutError("the store did not answer")

    with pytest.raises(TimeoutError, match="did not answer"):
        list(while_working(failing, lambda: 1, AT_ONCE))


def test_a_caller_that_stops_reading_waits_for_the_work() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        assert go_on.wait(60)
        ended.set()

    looks = while_working(work, lambda: 1, AT_ONCE)
    next(looks)
    threading.Timer(0.05, go_on.set).start()
    looks.close()

    assert ended.is_set()


def test_a_table_that_can_not_be_listed_does_not_end_its_cleaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, warehouse = large_cleaning(tmp_path)
    half_way, asked = HalfWay(), threading.Event()
    listed = Warehouse.list

    def failing(self: Warehouse, location: str) -> object:
        if threading.current_thread() is not threading.main_thread() or asked.is_set():
            return listed(self, location)
        if not started.is_set():
            return listed(self, location)
        asked.set()
        half_way.go_on.set()
        raise TransientError("the store is away")

    started = threading.Event()
    monkeypatch.setattr(Warehouse, "list", failing)
    cleaner = Cleaner(warehouse, half_way, lambda: NOON, progress_every=AT_ONCE)
    kinds: list[type[Outcome]] = []
    for outcome in cleaner.execute(command):
        started.set()
        kinds.append(type(outcome))

    assert asked.is_set()
    assert kinds[-1] is DirectoriesCleaned
