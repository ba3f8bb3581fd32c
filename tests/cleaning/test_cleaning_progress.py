"""A long cleaning says now and then how far it is; a fast one says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.acid import NOON, NOTHING_OPEN, build, names_in, release
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.settings import CleaningSettings
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    CleaningMode,
    CleaningProgressed,
    CleaningStarted,
    DirectoriesCleaned,
    Outcome,
)
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

INSERTS = 250


def cleaned(
    folder: Path, every: timedelta, mode: CleaningMode = CleaningMode.DELETE
) -> Iterator[Outcome]:
    product = f"delta_0000001_{INSERTS:07d}"
    inserts = {f"delta_{n:07d}_{n:07d}_0000": 10 for n in range(1, INSERTS + 1)}
    table = build(folder / "t", {**inserts, product: 100})
    ids = f"default.table_txn_001:{INSERTS}:{NOTHING_OPEN}::"
    command = release(str(table), directories=(product,), max_write_id=INSERTS, valid_write_ids=ids)
    warehouse, rules = Warehouse(WarehouseRoots.of(str(folder))), CleaningSettings(mode=mode)
    cleaner = Cleaner(warehouse, ThreadMap(), lambda: NOON, rules, progress_every=every)
    return cleaner.execute(command)


@pytest.mark.parametrize("mode", CleaningMode)
def test_it_says_how_many_directories_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CleaningMode
) -> None:
    monkeypatch.setattr("tidegate.cleaning.removal.AT_ONCE", 300)  # each has two files
    outcomes: list[Outcome] = []
    for outcome in cleaned(tmp_path, timedelta(0), mode):
        outcomes.append(outcome)
        if isinstance(outcome, CleaningProgressed):
            left = [name for name in names_in(tmp_path / "t") if name[0] != "."]
            assert outcome.directories_done == INSERTS + 1 - len(left)

    assert isinstance(outcomes[0], CleaningStarted)
    assert isinstance(outcomes[-1], DirectoriesCleaned)
    progress = [outcome for outcome in outcomes if isinstance(outcome, CleaningProgressed)]
    assert {report.directories_total for report in progress} == {INSERTS}
    assert {report.files_total for report in progress} == {outcomes[0].files}
    done = [report.directories_done for report in progress]
    assert done == ([100, 200] if mode is CleaningMode.DELETE else [*range(1, INSERTS)])
    assert [report.files_done for report in progress] == [2 * count for count in done]
    assert len({outcome.event_id for outcome in outcomes}) == len(outcomes)


def test_a_fast_one_says_nothing_in_between(tmp_path: Path) -> None:
    outcomes = list(cleaned(tmp_path, timedelta(minutes=5)))

    assert [type(outcome) for outcome in outcomes] == [CleaningStarted, DirectoriesCleaned]
