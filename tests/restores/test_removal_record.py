"""The record of what a restore removes lies on the table, where anybody may have written it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    data_files,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestoreStarted
from tidegate.restores import LivenessSettings, Restorer
from tidegate.savepoints import SavepointWriter
from tidegate.tables.warehouse import Warehouse

RECORDS = ".hoodie/.tidegate/removals"


def restore(table: HandMade, warehouse: Warehouse | None = None) -> Sequence[Outcome]:
    ours = warehouse or warehouse_over(table.path.parent)
    clock, unwatched = ticking(NOW + timedelta(minutes=1)), LivenessSettings(watch=timedelta(0))
    return list(
        Restorer(ours, ThreadMap(1), clock, unwatched).execute(restore_request(table, at(2)))
    )


def killed_once_recorded(root: Path) -> tuple[HandMade, Path]:
    """A table whose restore died as it began to remove files, and its record."""
    table = four_commits(root / "orders", 9)
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))

    def die(_: int) -> None:
        if any((table.path / RECORDS).glob("*/*.json")):
            raise Killed

    with pytest.raises(Killed):
        restore(table, Stepwise(root, die))
    [record] = (table.path / RECORDS).glob("*/*.json")
    return table, record


def hostile(*names: str) -> Callable[[Path], object]:
    return lambda record: record.write_text(json.dumps([["p", f"p/{name}"] for name in names]))


def pipe(record: Path) -> None:
    record.unlink()
    os.mkfifo(record)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(hostile(".g_x.log.evil"), id="a log file of no known form"),
        pytest.param(hostile(f"g\ud800_1-2-3_{at(4)}.parquet"), id="a name that no file can have"),
        pytest.param(hostile("../../../etc/passwd"), id="another file"),
        pytest.param(lambda record: record.write_text("{"), id="no JSON"),
        pytest.param(lambda record: record.write_text("[[1]]"), id="no pairs"),
        pytest.param(pipe, id="a pipe"),
    ],
)
def test_whatever_is_planted_there_a_resumed_restore_completes(
    plant: Callable[[Path], object], tmp_path: Path
) -> None:
    """The removal follows from the timeline; the record only adds to the report."""
    table, record = killed_once_recorded(tmp_path)
    plant(record)

    outcomes = restore(table)
    assert isinstance(outcomes[0], RestoreStarted)
    assert outcomes[0].resumed
    assert isinstance(outcomes[-1], RestoreCompleted), outcomes[-1]
    assert not any(at(3) in name or at(4) in name for name in data_files(table.path))
    assert not (table.path / RECORDS).exists() or not any((table.path / RECORDS).iterdir())
