"""Real Hudi resumes our restore, whatever step it died before: it shows the savepoint's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.judged import restore, savepoint
from support.merge_on_read import loaded, moment_of
from support.real_hudi import RealTable, rows
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow, pytest.mark.full]


def test_hudi_resumes_a_restore_that_died_at_any_step(live_hudi: RealHudi, tmp_path: Path) -> None:
    table = RealTable(live_hudi, tmp_path / "o/orders", 9, metadata_table=False)
    table.write(rows(range(6), "first", 1), "insert")
    table.write(rows(range(4), "second", 2))
    kept = moment_of(table)
    assert isinstance(savepoint(table, kept.instant, ThreadMap()), SavepointCreated)
    table.write([(0, "p0", 3, "bad"), (50, "p2", 3, "bad")])
    table.write([(3, "p1", 4, "bad")])
    bad, resumed, step = table.read(), 0, 0
    while True:
        step += 1
        died = table.copy(tmp_path / f"step-{step}/orders")
        files = Stepwise(died.path.parent, killed_at(step))
        try:
            *_, last = restore(died, kept.instant, ThreadMap(1), files)
        except Killed:
            pass
        else:
            assert isinstance(last, RestoreCompleted)
            break
        if loaded(died).timeline.pending_restores:
            resumed += 1
            died.call("rollback_to_savepoint", instant_time=kept.instant)
            assert died.read() == kept.rows, step
            died.write([(1, "p1", 9, "after")])
            expected = {row[0]: row for row in kept.rows} | {1: (1, "p1", 9, "after")}
            assert died.read() == sorted(expected.values()), step
        else:
            assert died.read() in (bad, kept.rows), step
    assert resumed > 8
