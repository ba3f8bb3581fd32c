"""A long restore says now and then how far it is; a short one says nothing in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.hudi_tables import (
    NOW,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    ticking,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, RestoreCompleted, RestoreProgressed, RestoreStarted
from tidegate.hudi.rollback import InstantInfo
from tidegate.restores.executor import Restorer, _Progress
from tidegate.restores.plan import Step, _PlannedFile, plan_of
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.progress import PAUSE


def slow(step: timedelta) -> Callable[[], datetime]:
    """A clock that moves on by so much at every look."""
    looks = iter(range(10**9))
    return lambda: NOW + timedelta(minutes=1) + step * next(looks)


def restored(folder: Path, clock: Callable[[], datetime]) -> list[Outcome]:
    table = four_commits(folder / "orders", 9)
    writer = SavepointWriter(warehouse_over(folder), ThreadMap(), ticking())
    assert list(writer.execute(savepoint_request(table, at(1))))
    unwatched = RestoreSettings(watch_seconds=0)
    restorer = Restorer(warehouse_over(folder), ThreadMap(threads=1), clock, unwatched)
    return list(restorer.execute(restore_request(table, at(1))))


def test_a_long_restore_says_how_far_it_is_after_each_pass_but_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.restores.plan.FILES_PER_PASS", 2)
    outcomes = restored(tmp_path, slow(timedelta(minutes=1)))

    assert [type(outcome) for outcome in outcomes] == [
        RestoreStarted,
        RestoreProgressed,
        RestoreProgressed,
        RestoreCompleted,
    ]
    progress = [outcome for outcome in outcomes if isinstance(outcome, RestoreProgressed)]
    assert [(e.instants_done, e.instants_total) for e in progress] == [(1, 3), (2, 3)]
    started, completed = outcomes[0], outcomes[-1]
    assert isinstance(started, RestoreStarted)
    assert isinstance(completed, RestoreCompleted)
    assert {report.files_total for report in progress} == {started.files}
    assert progress[0].files_done < progress[1].files_done < started.files
    assert len({outcome.event_id for outcome in outcomes}) == len(outcomes)


def test_a_short_restore_says_nothing_in_between(tmp_path: Path) -> None:
    outcomes = restored(tmp_path, slow(timedelta(milliseconds=1)))

    assert [type(outcome) for outcome in outcomes] == [RestoreStarted, RestoreCompleted]


@pytest.mark.parametrize("pause", [timedelta(0), PAUSE / 3, PAUSE])
def test_a_restore_of_many_instants_is_said_at_most_so_often(pause: timedelta) -> None:
    files = (_PlannedFile("p0", "p0/a.parquet", 1),)
    steps = tuple(Step(InstantInfo(at(minute), "commit"), files) for minute in range(30))
    progress = _Progress(plan_of(at(0), steps), NOW)

    said = [progress.rolled_back([step], NOW + pause * n) for n, step in enumerate(steps, 1)]

    assert sum(said) <= 1 + (pause * 30) // PAUSE
    assert not said[-1]
    assert (progress.files, progress.total_files) == (30, 30)
