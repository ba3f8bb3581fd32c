"""A savepoint while other writers, a restore or a clean are at work on the same table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    end_of,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.savepoint_stories import remove_savepoint
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted, SavepointCreated, SavepointRejected
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.restores.executor import Restorer
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

VERSIONS = pytest.mark.parametrize("version", [9, 6])
DRAFT = "0a3956ed-8b20-4b65-bf36-c2f72217919e"
"""How real Hudi ends the name of a file that it is about to rename."""


class Meanwhile(Warehouse):
    """Lets others work once, right before the first file whose name ends so is created."""

    def __init__(self, root: Path, ending: str, others: Callable[[], object]) -> None:
        super().__init__(WarehouseRoots.of(str(root)))
        self.ending, self.others = ending, [others]

    def create(self, location: str, content: bytes) -> None:
        if location.endswith(self.ending) and self.others:
            self.others.pop()()
        super().create(location, content)


def keep(table: HandMade, instant: str, warehouse: Warehouse | None = None) -> Outcome:
    ours = warehouse or warehouse_over(table.path.parent)
    (outcome,) = SavepointWriter(ours, ThreadMap(), ticking()).execute(
        savepoint_request(table, instant)
    )
    return outcome


def restore(table: HandMade, instant: str) -> Outcome:
    restorer = Restorer(warehouse_over(table.path.parent), ThreadMap(), ticking())
    return list(restorer.execute(restore_request(table, instant)))[-1]


def savepoints(table: HandMade) -> set[str]:
    return {name for name in timeline_names(table) if ".savepoint" in name}


@VERSIONS
def test_a_savepoint_never_keeps_a_file_of_a_write_in_flight(tmp_path: Path, version: int) -> None:
    """All completed commits are savepointed: none of them shows where the timeline begins."""
    table = HandMade(tmp_path / "orders", version).create()
    table.commit(at(1))
    keep(table, at(1))
    table.begin(at(2))
    table.data(at(2), "g0", "p0")
    table.commit(at(3), at(1), {"p1": "g1"})
    keep(table, at(3))

    outcome = keep(table, at(3))

    assert isinstance(outcome, SavepointCreated)
    (name,) = (n for n in savepoints(table) if n.endswith(".savepoint") and n.startswith(at(3)))
    kept = SavepointMetadata.decode((table.timeline / name).read_bytes()).files
    assert kept == {"p0": (f"g0_0-1-2_{at(1)}.parquet",), "p1": (f"g1_0-1-2_{at(3)}.parquet",)}


@VERSIONS
def test_a_restore_while_a_savepoint_is_planned_leaves_no_savepoint_of_a_commit_that_is_gone(
    tmp_path: Path, version: int
) -> None:
    table = four_commits(tmp_path / "orders", version)
    keep(table, at(2))
    before = savepoints(table)
    late = Meanwhile(tmp_path, ".savepoint.inflight", lambda: restore(table, at(2)))

    with pytest.raises(TransientError, match="was being planned"):
        keep(table, at(4), late)

    assert savepoints(table) == before
    again = keep(table, at(4))
    assert isinstance(again, SavepointRejected)
    assert again.reason == "no-such-commit"


def test_a_clean_while_a_savepoint_is_planned_makes_it_plan_again(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    late = Meanwhile(tmp_path, ".savepoint.inflight", lambda: table.clean(at(6), bound=at(4)))

    with pytest.raises(TransientError):
        keep(table, at(2), late)

    assert savepoints(table) == set()
    again = keep(table, at(2))
    assert isinstance(again, SavepointRejected)
    assert again.reason == "below-last-clean"


def test_an_inflight_savepoint_of_a_commit_that_is_gone_blocks_no_restore(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    keep(table, at(2))
    table.put(Instant(at(5), Action.SAVEPOINT, InstantState.INFLIGHT))

    assert isinstance(restore(table, at(2)), RestoreCompleted)
    assert savepoints(table) == {
        f"{at(2)}.savepoint.inflight",
        f"{at(2)}_20260301120003000.savepoint",
    }


@VERSIONS
def test_a_draft_on_the_timeline_is_ignored(tmp_path: Path, version: int) -> None:
    table = four_commits(tmp_path / "orders", version)
    (table.timeline / f"{at(4)}_{end_of(at(4))}.commit.tmp").touch()
    (table.timeline / f"{at(4)}.commit.0a1b2c.tmp").touch()
    (table.timeline / f"{at(4)}.rollback.requested.{DRAFT}").touch()
    (table.timeline / f"{at(4)}_{end_of(at(4))}.commit.{DRAFT}").touch()

    assert isinstance(keep(table, at(2)), SavepointCreated)


@VERSIONS
def test_nothing_is_derived_from_a_savepoint_that_was_removed_meanwhile(
    tmp_path: Path, version: int
) -> None:
    """From then on the cleaner may remove files outside every listing."""
    table = four_commits(tmp_path / "orders", version)
    keep(table, at(2))
    late = Meanwhile(tmp_path, ".savepoint.inflight", lambda: remove_savepoint(table, at(2)))

    with pytest.raises(TransientError, match="was removed"):
        keep(table, at(4), late)

    assert savepoints(table) == set()
    again = keep(table, at(4))
    assert isinstance(again, SavepointCreated)
    assert again.derived_from is None
