"""Two at work on a merge-on-read table at once: a restorer, a savepoint writer, a writer.

The other does all of its work within one step of the first: at some steps in every run, at each of
them under `full`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    merge_on_read,
    restore_request,
    savepoint_request,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Stepwise
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted, SavepointCreated, SavepointRejected
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi_reader.table import load_table
from tidegate.restores.executor import Restorer
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import Storage
from tidegate.tables.warehouse import Warehouse

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [9, 6])
STEPS = pytest.mark.parametrize(
    "every",
    [pytest.param(6, id="some steps"), pytest.param(1, id="every step", marks=pytest.mark.full)],
)
Work = Callable[[HandMade, Warehouse, int], Sequence[Outcome]]


def restore(table: HandMade, warehouse: Warehouse, hour: int) -> list[Outcome]:
    clock = ticking(NOW + timedelta(hours=hour))
    unwatched = RestoreSettings(watch_seconds=0)
    restorer = Restorer(warehouse, ThreadMap(threads=1), clock, unwatched)
    return list(restorer.execute(restore_request(table, at(3))))


def keep(table: HandMade, warehouse: Warehouse, hour: int, instant: str = at(5)) -> list[Outcome]:
    clock = ticking(NOW + timedelta(hours=hour))
    writer = SavepointWriter(warehouse, ThreadMap(threads=1), clock)
    return list(writer.execute(savepoint_request(table, instant)))


def interleaved(
    root: Path, version: int, every: int, first: Work, other: Work
) -> Iterator[tuple[HandMade, Sequence[Outcome] | None, Sequence[Outcome]]]:
    """The table, what the first said (None: to be tried again), what the other said; per step."""
    original = merge_on_read(root / "original/orders", version)
    assert isinstance(keep(original, warehouse_over(root), 0, at(3))[-1], SavepointCreated)
    (twin := root / "twin").mkdir()
    shutil.copytree(original.path, twin / "orders")
    counting = Stepwise(twin, lambda _: None)
    first(HandMade(twin / "orders", version), counting, 1)
    for at_step in range(1, counting.steps + 1, every):
        where = root / f"step-{at_step}"
        shutil.copytree(original.path, where / "orders")
        table = HandMade(where / "orders", version)
        said = list[Outcome]()

        def meanwhile(
            number: int, table: HandMade = table, step: int = at_step, said: list[Outcome] = said
        ) -> None:
            if number == step:
                said.extend(other(table, warehouse_over(table.path.parent), 1))

        try:
            result = first(table, Stepwise(where, meanwhile), 0)
        except TransientError:
            result = None
        yield table, result, said
        shutil.rmtree(where)


def savepointed(table: HandMade) -> set[str]:
    now = load_table(Storage(), table.location).timeline
    return {i.timestamp for i in now.of_action(Action.SAVEPOINT, InstantState.COMPLETED)}


def check_savepoints(table: HandMade) -> None:
    """Every savepoint is of a commit that is there, unless a restore has yet to be resumed."""
    now = load_table(Storage(), table.location).timeline
    assert savepointed(table) <= {commit.timestamp for commit in now.completed_writes}


@VERSIONS
def test_a_restore_during_a_savepoint(tmp_path: Path, version: int) -> None:
    seen = set[str]()
    for table, kept, restored in interleaved(tmp_path, version, 1, keep, restore):
        (*_, last) = restored
        if isinstance(last, RestoreCompleted):
            assert kept is None or isinstance(kept[-1], SavepointRejected | SavepointCreated)
            assert at(5) not in savepointed(table)
        else:
            assert at(5) in savepointed(table)
        check_savepoints(table)
        seen.add(type(last).__name__)
    assert seen == {"RestoreCompleted", "RestoreRejected"}


@VERSIONS
@STEPS
def test_a_savepoint_during_a_restore(tmp_path: Path, version: int, every: int) -> None:
    """Until the restore is on the timeline the savepoint is kept; afterwards it is refused."""
    for table, restored, kept in interleaved(tmp_path, version, every, restore, keep):
        if isinstance(kept[-1], SavepointCreated):
            assert restored is None or not isinstance(restored[-1], RestoreCompleted)
            assert at(5) in savepointed(table)
        else:
            assert isinstance(kept[-1], SavepointRejected)
            assert restored is not None
            assert isinstance(restored[-1], RestoreCompleted)
        check_savepoints(table)


@VERSIONS
@STEPS
def test_a_write_during_a_restore_is_rolled_back_too_or_stays_whole(
    tmp_path: Path, version: int, every: int
) -> None:
    """Never is a restore said to be complete while a later commit is half there."""
    was_late = list[bool]()

    def write(table: HandMade, _warehouse: Warehouse, _hour: int) -> list[Outcome]:
        # by a writer that had loaded the table before; not late are those after the last rollback
        was_late[:] = [any(at(5) in name for name in timeline_names(table))]
        table.delta(at(50), {"p2": "g2"}, at(1))
        return []

    for table, restored, _ in interleaved(tmp_path, version, every, restore, write):
        is_there = any(at(50) in name for name in timeline_names(table))
        if restored is not None and isinstance(restored[-1], RestoreCompleted):
            # it came when all was rolled back and checked: as a write after the restore
            assert not (was_late[0] and is_there)
            done = load_table(Storage(), table.location).timeline.last_completed_write()
            assert done is not None
            assert done.timestamp == (at(50) if is_there else at(3))
        else:
            *_, last = restore(table, warehouse_over(table.path.parent), 2)
            assert isinstance(last, RestoreCompleted)
            assert not any(at(50) in name for name in timeline_names(table))
            if version > 6:
                assert not list(table.path.glob(f"p2/.*_{at(50)}.log.*"))


@VERSIONS
@STEPS
def test_a_write_that_begins_unseen_during_a_restore_can_t_complete_after_it(
    tmp_path: Path, version: int, every: int
) -> None:
    """It has read what is rolled back: its writer looked right before the restore was there."""

    def begin(table: HandMade, _warehouse: Warehouse, _hour: int) -> list[Outcome]:
        if any(at(5) in name for name in timeline_names(table)):
            table.delta(at(50), {"p2": "g2"}, at(1), completes=False)
        return []

    seen = set[str]()
    for table, restored, _ in interleaved(tmp_path, version, every, restore, begin):
        has_begun = any(at(50) in name for name in timeline_names(table))
        last = restored[-1] if restored is not None else None
        assert isinstance(last, RestoreCompleted) is not has_begun
        if has_begun:
            *_, last = restore(table, warehouse_over(table.path.parent), 2)
            assert isinstance(last, RestoreCompleted)
            assert not any(at(50) in name for name in timeline_names(table))
        seen.add(f"{type(last).__name__} {has_begun}")
    assert seen == {"RestoreCompleted True", "RestoreCompleted False"}


@VERSIONS
@STEPS
def test_a_savepoint_of_hudi_s_during_a_restore_is_never_left_without_its_commit(
    tmp_path: Path, version: int, every: int
) -> None:
    """Hudi takes no notice of a pending restore when it writes a savepoint."""

    def keep_as_hudi(table: HandMade, _warehouse: Warehouse, _hour: int) -> list[Outcome]:
        now = load_table(Storage(), table.location)
        newest = now.timeline.completed_writes[-1].timestamp
        if newest == at(3):
            return []
        of_3 = now.timeline.of_action(Action.SAVEPOINT, InstantState.COMPLETED)[0]
        for state in (InstantState.INFLIGHT, InstantState.COMPLETED):
            completion = at(58) if state is InstantState.COMPLETED else None
            table.put(Instant(newest, Action.SAVEPOINT, state, completion), now.read(of_3))
        return []

    seen = set[str]()
    for table, restored, _ in interleaved(tmp_path, version, every, restore, keep_as_hudi):
        last = restored[-1] if restored is not None else None
        for kept in savepointed(table) - {at(3)}:
            assert not isinstance(last, RestoreCompleted)
            if last is not None:
                assert f"savepoint of {kept}" in getattr(last, "message", "")
                now = load_table(Storage(), table.location).timeline
                seen.add("gone" if now.completed_write(kept) is None else "whole")
            for name in timeline_names(table):
                if name.startswith(kept) and ".savepoint" in name:
                    (table.timeline / name).unlink()
            *_, last = restore(table, warehouse_over(table.path.parent), 2)
        assert isinstance(last, RestoreCompleted)
        check_savepoints(table)
    assert "whole" in seen
    if every == 1:
        assert "gone" in seen
