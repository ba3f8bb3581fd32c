"""A long restore says now and then how far it is; a short one says nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

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
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.rollback import InstantInfo, RollbackMetadata
from tidegate.restores.executor import Restorer
from tidegate.restores.plan import Step, _PlannedFile, plan_of
from tidegate.restores.run import RestoreRun
from tidegate.restores.settings import RestoreSettings
from tidegate.runtime.protocols import PROGRESS_EVERY
from tidegate.savepoints.executor import SavepointWriter


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


class Passes:
    """A restore of 30 instants, of which each takes so long to roll back."""

    def __init__(self, pause: timedelta) -> None:
        files = (_PlannedFile("p0", "p0/a.parquet", 1),)
        targets = [InstantInfo(at(minute), "commit") for minute in range(30)]
        self.plan = plan_of(at(0), tuple(Step(target, files) for target in targets))
        self.instant = Instant(at(40), Action.RESTORE, InstantState.INFLIGHT)
        self.pause, self.now = pause, NOW

    def passes(self) -> Iterator[tuple[Step, ...]]:
        return ((step,) for step in self.plan.steps)

    def roll_back(self, steps: Sequence[Step]) -> list[RollbackMetadata]:
        self.now += self.pause
        return [RollbackMetadata(at(40), 0, step.target, {}, ()) for step in steps]

    def check_savepoints(self) -> None:
        pass

    check_end = check_savepoints


@pytest.mark.parametrize("pause", [timedelta(0), PROGRESS_EVERY / 3, PROGRESS_EVERY])
def test_a_restore_of_many_instants_is_said_at_most_so_often(
    tmp_path: Path, pause: timedelta
) -> None:
    run = Passes(pause)
    restorer = Restorer(warehouse_over(tmp_path), ThreadMap(), lambda: run.now)
    request = restore_request(four_commits(tmp_path / "orders", 9), at(0))

    said = list(restorer._roll_back(request, cast("RestoreRun", run), NOW))

    assert len(said) == (29 if pause == PROGRESS_EVERY else 9 if pause else 0)
    done = [e.instants_done for e in said if isinstance(e, RestoreProgressed)]
    assert done == sorted({*done} - {30})
    assert {e.files_total for e in said if isinstance(e, RestoreProgressed)} <= {30}
