"""A million exchanges of a partition with a link to another table's, against two whole services."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from support.acid import IDS_1_TO_3, INSERT_1, INSERT_2, INSERT_3, MINOR_3, build, release, tree
from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    ticking,
    warehouse_over,
)
from support.link_swaps import swapping
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TidegateError
from tidegate.events import DirectoriesCleaned, Outcome, RestoreCompleted
from tidegate.restores.executor import Restorer
from tidegate.savepoints.executor import SavepointWriter

EXCHANGES = 500_000
AFTER_MINOR = {MINOR_3: 20, INSERT_1: 10, INSERT_2: 10, INSERT_3: 10}
pytestmark = pytest.mark.soak


def attacked(one: Path, other: Path, act: Callable[[], Iterator[Outcome]]) -> tuple[int, bool]:
    """Run a service again and again for a second, or until it has done its work.

    Returns:
        The number of exchanges, and whether the work was done.
    """
    done, end = False, time.monotonic() + 1
    with swapping(one, other) as swaps:
        while not done and time.monotonic() < end:
            with suppress(TidegateError, OSError):
                done = any(isinstance(o, DirectoriesCleaned | RestoreCompleted) for o in act())
    return swaps.count, done


@pytest.mark.timeout(1200)
def test_the_cleaner_removes_nothing_of_another_table(tmp_path: Path) -> None:
    mine, victim, link = tmp_path / "mine", tmp_path / "victim", tmp_path / "link"
    build(victim / "p", AFTER_MINOR)
    link.symlink_to(victim / "p")
    before = tree(victim)
    cleaner = Cleaner(warehouse_over(tmp_path), ThreadMap(2), ticking())
    command = release(str(mine), partition="p", valid_write_ids=IDS_1_TO_3)
    exchanges = cleaned = 0
    while exchanges < EXCHANGES or not cleaned:
        shutil.rmtree(mine, ignore_errors=True)
        build(mine / "p", AFTER_MINOR)
        count, done = attacked(mine / "p", link, lambda: cleaner.execute(command))
        exchanges, cleaned = exchanges + count, cleaned + done
        assert tree(victim) == before


@pytest.mark.timeout(1200)
def test_the_restorer_removes_nothing_of_another_table(tmp_path: Path) -> None:
    victim, link = four_commits(tmp_path / "victim", 9), tmp_path / "link"
    link.symlink_to(victim.path / "p0")
    before = snapshot(victim.path)
    exchanges = restored = 0
    while exchanges < EXCHANGES or not restored:
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        mine = four_commits(tmp_path / "mine", 9)
        writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(2), ticking())
        list(writer.execute(savepoint_request(mine, at(2))))
        count, done = attacked(mine.path / "p0", link, partial(restore, mine))
        exchanges, restored = exchanges + count, restored + done
        assert snapshot(victim.path) == before


def restore(table: HandMade) -> Iterator[Outcome]:
    clock = ticking(NOW + timedelta(minutes=1))
    restorer = Restorer(warehouse_over(table.path.parent), ThreadMap(2), clock)
    return restorer.execute(restore_request(table, at(2)))
