from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from support.hudi_tables import (
    NOW,
    HandMade,
    at,
    data_files,
    four_commits,
    restore_request,
    savepoint_request,
    snapshot,
    ticking,
    timeline_names,
    warehouse_over,
)
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.hudi.rollback import RestoreMetadata
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores import hudi_engine
from tidegate.restores.executor import Restorer
from tidegate.restores.hudi_engine import Session
from tidegate.restores.settings import RestoreRule, RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.tables.hudi import TimelineWriter
from tidegate.tables.warehouse import Warehouse

VERSIONS = pytest.mark.parametrize("version", [9, 6])
LATER = "20260301130000000"
TOMORROW = NOW + timedelta(days=1)


def savepointed(root: Path, version: int = 9) -> HandMade:
    table = four_commits(root / "orders", version)
    writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def answers_of(
    table: HandMade, command: RestoreRequested, warehouse: Warehouse | None = None
) -> Sequence[Outcome]:
    ours = warehouse or warehouse_over(table.path.parent)
    clock, unwatched = ticking(NOW + timedelta(minutes=1)), RestoreSettings(watch_seconds=0)
    restorer = Restorer(ours, ThreadMap(threads=1), clock, unwatched)
    return list(restorer.execute(command))


def is_same(outcomes: Sequence[Outcome], completed: Outcome) -> bool:
    """The same outcome, which reports no deletion this time, so that no reader counts it twice."""
    (again,) = outcomes
    assert isinstance(again, RestoreCompleted)
    assert again.already_done
    of_now = {"occurred_at", "already_done"}
    return again.model_dump(exclude=of_now) == completed.model_dump(exclude=of_now)


@VERSIONS
def test_repeated_after_new_commits_a_restore_is_answered_and_not_repeated(
    tmp_path: Path, version: int
) -> None:
    table = savepointed(tmp_path, version)
    _, completed = answers_of(table, restore_request(table, at(2)))
    table.commit(LATER, at(2))
    before = snapshot(tmp_path)

    again = answers_of(table, restore_request(table, at(2)))

    assert is_same(again, completed)
    assert snapshot(tmp_path) == before


def test_two_requests_answered_by_one_restore_are_both_recognised_later(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    second = restore_request(table, at(2), occurred_at=TOMORROW)
    answers_of(table, restore_request(table, at(2)))
    (answer,) = answers_of(table, second)
    table.commit(LATER, at(2))
    before = snapshot(tmp_path)

    assert is_same(answers_of(table, second), answer)
    assert snapshot(tmp_path) == before


def test_a_plan_asked_for_is_made_anew_each_time(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    (first,) = answers_of(table, restore_request(table, at(2), plan_only=True))
    table.commit(LATER, at(4))
    (second,) = answers_of(table, restore_request(table, at(2), plan_only=True))

    assert first.event_id == second.event_id
    assert first != second


def test_a_begun_restore_that_a_person_took_off_the_timeline_is_not_begun_again(
    tmp_path: Path,
) -> None:
    table = savepointed(tmp_path)
    with pytest.raises(Killed):
        answers_of(table, restore_request(table, at(2)), Stepwise(tmp_path, killed_at(5)))
    pending = [name for name in timeline_names(table) if ".restore." in name]
    for name in pending:
        (table.timeline / name).unlink()
    table.commit(LATER, at(4))
    before = snapshot(tmp_path)

    (answer,) = answers_of(table, restore_request(table, at(2)))

    assert pending
    assert isinstance(answer, RestoreRejected)
    assert answer.reason == "restore-abandoned"
    assert snapshot(tmp_path) == before


def test_a_restore_that_was_begun_is_not_given_up_for_a_writer_that_came_by(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    with pytest.raises(Killed):
        answers_of(table, restore_request(table, at(2)), Stepwise(tmp_path, killed_at(5)))
    lock = table.path / ".hoodie/lock"
    lock.touch()
    (rejected,) = answers_of(table, restore_request(table, at(2)))
    lock.unlink()

    assert isinstance(rejected, RestoreRejected)
    assert isinstance(answers_of(table, restore_request(table, at(2)))[-1], RestoreCompleted)


class WriterComesBy(Warehouse):
    """A writer begins after the last look at it and before the restore stands on the timeline."""

    def create(self, location: str, content: bytes) -> None:
        if location.endswith(".restore.requested"):
            beat = Path(location).parents[1] / ".heartbeat" / "20260301110000000"
            beat.parent.mkdir(parents=True)
            beat.touch()
            os.utime(beat, (NOW.timestamp(), NOW.timestamp()))
        super().create(location, content)


def test_a_writer_that_begins_just_before_the_restore_loses_no_file(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    before = data_files(table.path)
    late = WriterComesBy(warehouse_over(tmp_path).roots)
    started, failed = answers_of(table, restore_request(table, at(2)), late)

    assert isinstance(started, RestoreStarted)
    assert isinstance(failed, RestoreFailed)
    assert "nothing was removed" in failed.message
    assert data_files(table.path) == before

    shutil.rmtree(table.path / ".hoodie/.heartbeat")
    assert isinstance(answers_of(table, restore_request(table, at(2)))[-1], RestoreCompleted)


def test_a_damaged_record_refuses_the_request_and_touches_nothing(tmp_path: Path) -> None:
    table = savepointed(tmp_path)
    answers_of(table, restore_request(table, at(2)))
    (kept,) = (table.path / ".hoodie/.tidegate/restorer").glob("*.begun")
    os.truncate(kept, 10)
    table.commit(LATER, at(2))
    before = snapshot(tmp_path)

    (answer,) = answers_of(table, restore_request(table, at(2)))

    assert isinstance(answer, RestoreRejected)
    assert answer.reason == "unreadable-table"
    assert snapshot(tmp_path) == before


@pytest.mark.slow
@VERSIONS
def test_killed_at_any_step_and_repeated_after_new_commits_it_destroys_none(
    tmp_path: Path, version: int
) -> None:
    original = savepointed(tmp_path / "original", version)
    counting = Stepwise(tmp_path / "original", lambda _: None)
    shutil.copytree(original.path, tmp_path / "copy/orders")
    answers_of(original, restore_request(original, at(2)), counting)
    assert counting.steps > 30

    for step in range(1, counting.steps + 1):
        root = tmp_path / f"killed-{step}"
        shutil.copytree(tmp_path / "copy/orders", root / "orders")
        table = HandMade(root / "orders", version)
        with pytest.raises(Killed):
            answers_of(table, restore_request(table, at(2)), Stepwise(root, killed_at(step)))
        if any(name.endswith(".restore") for name in timeline_names(table)):
            # writers may go on only once the restore has completed
            table.commit(LATER, at(2))
        kept = list(root.rglob(f"*{LATER}.parquet"))

        assert isinstance(answers_of(table, restore_request(table, at(2)))[-1], RestoreCompleted), (
            step
        )
        assert list(root.rglob(f"*{LATER}.parquet")) == kept, step
        shutil.rmtree(root)


def test_a_restore_by_hudi_during_which_a_write_completed_is_not_said_to_be_done_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, warehouse = savepointed(tmp_path), warehouse_over(tmp_path)
    command = restore_request(table, at(2))

    def leaves_one(_: Session, there: HudiTable, savepoint: str) -> None:
        assert savepoint == at(2)
        writer = TimelineWriter(warehouse, there, ticking())
        writer.remove(file for file in there.files if file.timestamp == at(4))
        (pending,) = there.timeline.pending_restores
        writer.complete(pending, RestoreMetadata(pending.timestamp, 1, ()).encode())

    monkeypatch.setattr(hudi_engine, "_call", leaves_one)
    clock, rule = ticking(NOW + timedelta(minutes=1)), RestoreRule(tables="*", engine="hudi")
    settings = RestoreSettings(watch_seconds=0, rules=(rule,))
    restorer = Restorer(warehouse, ThreadMap(threads=1), clock, settings, lambda: cast("Any", None))
    _, failed = restorer.execute(command)
    assert isinstance(failed, RestoreFailed)

    (again,) = restorer.execute(command)

    assert isinstance(again, RestoreRejected)
    assert again.reason == "later-commit-stays"
    assert at(3) in again.message
