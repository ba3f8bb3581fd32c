from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, SavepointCreated, SavepointRejected, SavepointRequested
from tidegate.savepoints import SavepointWriter
from tidegate.tables.warehouse import Warehouse

VERSIONS = pytest.mark.parametrize("version", [9, 6])


def answer(
    table: HandMade,
    command: SavepointRequested,
    *,
    warehouse: Warehouse | None = None,
    days: int = 0,
) -> Outcome:
    ours = warehouse or warehouse_over(table.path.parent)
    writer = SavepointWriter(ours, ThreadMap(), ticking(NOW + timedelta(days=days)))
    (outcome,) = writer.execute(command)
    return outcome


def remove_savepoint(table: HandMade, instant: str) -> None:
    """As Hudi's delete_savepoint does: both files go."""
    for path in list(table.timeline.glob(f"*{instant}*.savepoint*")):
        path.unlink()


@VERSIONS
def test_a_savepoint_that_was_removed_since_does_not_come_back(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    created = answer(table, savepoint_request(table, at(2)))
    remove_savepoint(table, at(2))
    before = snapshot(tmp_path)

    assert answer(table, savepoint_request(table, at(2))) == created
    assert snapshot(tmp_path) == before


def test_the_newest_commit_is_the_newest_of_when_it_was_first_asked(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    answer(table, savepoint_request(table, None))
    table.commit(at(5), at(4))

    again = answer(table, savepoint_request(table, None))

    assert isinstance(again, SavepointCreated)
    assert (again.instant, again.already_there) == (at(4), True)
    assert not [name for name in timeline_names(table) if name.startswith(f"{at(5)}.savepoint")]


def test_a_rejected_request_leaves_nothing_on_the_table(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    before = snapshot(tmp_path)

    assert isinstance(answer(table, savepoint_request(table, at(5))), SavepointRejected)
    assert snapshot(tmp_path) == before


@VERSIONS
def test_killed_at_any_step_and_repeated_there_is_one_savepoint(
    tmp_path: Path, version: int
) -> None:
    for step in range(1, 4):
        table = four_commits(tmp_path / f"{step}/orders", version)
        ask = savepoint_request(table, at(2))
        with pytest.raises(Killed):
            answer(table, ask, warehouse=Stepwise(tmp_path / f"{step}", killed_at(step)))

        assert isinstance(answer(table, ask), SavepointCreated), step
        done = [name for name in timeline_names(table) if name.endswith(".savepoint")]
        assert len(done) == 1, step


def test_answers_to_commands_of_long_ago_are_forgotten(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    answer(table, savepoint_request(table, at(2)))
    later = NOW + timedelta(days=91)
    answer(table, savepoint_request(table, at(3), occurred_at=later), days=91)

    shelves = table.path / ".hoodie/.tidegate/savepoint-writer"
    assert [shelf.name for shelf in shelves.iterdir()] == ["2026-05-31"]
