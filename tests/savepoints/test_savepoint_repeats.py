from __future__ import annotations

from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    savepoint_request,
    snapshot,
    tables_own,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, SavepointCreated, SavepointRejected, SavepointRequested
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.claim import AlreadyDone, Task
from tidegate.tables.warehouse import Warehouse

VERSIONS = pytest.mark.parametrize("version", [9, 6])


def answer(
    table: HandMade,
    command: SavepointRequested,
    *,
    warehouse: Warehouse | None = None,
    number: int = 1,
) -> Outcome:
    """The outcome of a request as one task, repeated where its worker has died."""
    writer = SavepointWriter(warehouse or warehouse_over(table.path.parent), ThreadMap(), ticking())
    task = Task(number, f"task {number}", command.table, "cluster/tidegate")
    try:
        claim = writer.claim(command, task)
        (outcome,) = claim.finish(list(writer.execute(command, claim)))
    except AlreadyDone as done:
        (outcome,) = done.outcomes
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
    died = 0
    for step in range(1, 20):
        table = four_commits(tmp_path / f"{step}/orders", 9)
        ask = savepoint_request(table, None)
        try:
            answer(table, ask, warehouse=Stepwise(tmp_path / f"{step}", killed_at(step)))
        except Killed:
            planned = (table.path / ".hoodie/.tidegate/tasks/1.plan").exists()
            table.commit(at(5), at(4))
        else:
            break

        again = answer(table, ask)

        assert isinstance(again, SavepointCreated)
        assert again.instant == (at(4) if planned else at(5)), step
        died += planned
    assert died >= 3


def test_a_rejected_request_leaves_nothing_on_the_table(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    before = tables_own(tmp_path)

    assert isinstance(answer(table, savepoint_request(table, at(5))), SavepointRejected)
    assert tables_own(tmp_path) == before


@VERSIONS
def test_killed_at_any_step_and_repeated_there_is_one_savepoint(
    tmp_path: Path, version: int
) -> None:
    for step in range(1, 20):
        table = four_commits(tmp_path / f"{step}/orders", version)
        ask = savepoint_request(table, at(2), policy="sales", tiers=("daily",))
        try:
            answer(table, ask, warehouse=Stepwise(tmp_path / f"{step}", killed_at(step)))
        except Killed:
            outcome = answer(table, ask)
        else:
            break

        assert isinstance(outcome, SavepointCreated), step
        assert (outcome.files, outcome.already_there) == (2, False), step
        done = [name for name in timeline_names(table) if name.endswith(".savepoint")]
        assert len(done) == 1, step
    else:
        pytest.fail("a savepoint takes fewer steps")
    assert step > 4


def test_of_two_requests_for_one_commit_the_second_finds_the_savepoint_there(
    tmp_path: Path,
) -> None:
    table = four_commits(tmp_path / "orders", 9)
    first = savepoint_request(table, at(2), policy="sales", tiers=("daily",))
    answer(table, first)
    other = savepoint_request(table, at(2), policy="sales", tiers=("weekly",), event_id="other")

    outcome = answer(table, other, number=2)

    assert isinstance(outcome, SavepointCreated)
    assert outcome.already_there
