"""The lock file of Hudi's FileSystemBasedLockProvider, held while a restore runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    warehouse_over,
)
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    Outcome,
    RestoreCompleted,
    RestoreFailed,
    RestoreRejected,
    RestoreRequested,
    RestoreStarted,
)
from tidegate.events.reasons import Reason
from tidegate.restores import liveness
from tidegate.restores.executor import Restorer
from tidegate.restores.run import RestoreRun
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import Storage

NOW = partial(datetime.now, UTC)
HELD = RestoreSettings(watch_seconds=0, hold_lock=True)
HUDI_S = json.dumps({"lockCreateTime": "2026-11-23 10:00:00.000", "lockThreadName": "main"})


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    """Four commits, the second of them with a savepoint."""
    table = four_commits(tmp_path / "orders", 9)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), NOW)
    list(writer.execute(savepoint_request(table, at(2))))
    return table


def restorer_of(table: HandMade, settings: RestoreSettings) -> Restorer:
    return Restorer(warehouse_over(table.path.parent), ThreadMap(), NOW, settings)


def restore(
    table: HandMade, settings: RestoreSettings = HELD, command: RestoreRequested | None = None
) -> Sequence[Outcome]:
    return list(restorer_of(table, settings).execute(command or restore_request(table, at(2))))


def lock_of(table: HandMade, name: str = ".hoodie/lock") -> Path:
    return table.path / name


def test_it_is_there_while_the_restore_runs_and_gone_afterwards(table: HandMade) -> None:
    command = restore_request(table, at(2))
    outcomes = restorer_of(table, HELD).execute(command)

    assert isinstance(next(outcomes), RestoreStarted)
    owner = json.loads(lock_of(table).read_text())["lockThreadName"]
    assert owner.startswith(f"tidegate restore {command.event_id} ")
    *_, last = outcomes

    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_by_default_none_is_made(table: HandMade) -> None:
    outcomes = restorer_of(table, RestoreSettings(watch_seconds=0)).execute(
        restore_request(table, at(2))
    )

    for _ in outcomes:
        assert not lock_of(table).exists()


def test_a_writer_s_lock_refuses_the_restore_and_stays(table: HandMade) -> None:
    lock_of(table).write_text(HUDI_S)
    before = sorted(map(str, table.path.rglob("*")))

    (refused,) = restore(table)

    assert isinstance(refused, RestoreRejected)
    assert refused.reason == Reason.WRITER_ALIVE
    assert sorted(map(str, table.path.rglob("*"))) == before
    assert lock_of(table).read_text() == HUDI_S


def test_a_lock_that_a_writer_takes_after_the_look_refuses_it_too(
    table: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.restores.preparation.check_writers", lambda *_: lock(table))

    (refused,) = restore(table)

    assert isinstance(refused, RestoreRejected)
    assert refused.reason == Reason.WRITER_ALIVE
    assert lock_of(table).read_text() == HUDI_S
    assert not list(table.path.rglob("*.restore.*"))


def lock(table: HandMade) -> None:
    lock_of(table).write_text(HUDI_S)


def test_that_of_a_restorer_that_was_killed_is_taken_over(table: HandMade) -> None:
    lock_of(table).write_text(json.dumps({"lockThreadName": "tidegate restore another"}))

    *_, last = restore(table)

    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_one_that_is_older_than_its_expiry_was_left_behind(table: HandMade) -> None:
    lock(table)
    hour = timedelta(hours=1)
    settings = RestoreSettings(watch_seconds=0, hold_lock=True, lock_expiry=3600)
    (refused,) = restore(table, settings)
    assert isinstance(refused, RestoreRejected)

    old = NOW().timestamp() - 2 * hour.total_seconds()
    os.utime(lock_of(table), (old, old))
    *_, last = restore(table, settings)

    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_it_is_given_back_when_the_restore_fails(
    table: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends_otherwise(run: RestoreRun) -> None:
        assert lock_of(table).exists()
        table.commit(at(9))
        check_end(run)

    check_end = RestoreRun.check_end
    monkeypatch.setattr(RestoreRun, "check_end", ends_otherwise)

    *_, last = restore(table)

    assert isinstance(last, RestoreFailed)
    assert not lock_of(table).exists()


def test_one_that_the_next_restore_has_taken_over_is_left_to_it(table: HandMade) -> None:
    outcomes = restorer_of(table, HELD).execute(restore_request(table, at(2)))
    next(outcomes)
    others = json.dumps({"lockThreadName": "tidegate restore another"})
    lock_of(table).write_text(others)

    *_, last = outcomes

    assert isinstance(last, RestoreCompleted)
    assert lock_of(table).read_text() == others


def test_the_first_of_the_configured_files_is_held(table: HandMade) -> None:
    files = ("locks/orders/lock", ".hoodie/lock")
    settings = RestoreSettings(watch_seconds=0, hold_lock=True, lock_files=files)
    outcomes = restorer_of(table, settings).execute(restore_request(table, at(2)))

    next(outcomes)
    assert lock_of(table, files[0]).exists()
    assert not lock_of(table).exists()
    *_, last = outcomes

    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table, files[0]).exists()


def test_who_is_killed_after_the_last_outcome_was_published_leaves_none(table: HandMade) -> None:
    """Its request comes again, and is answered already."""
    outcomes = restorer_of(table, HELD).execute(restore_request(table, at(2)))

    while not isinstance(next(outcomes), RestoreCompleted):
        assert lock_of(table).exists()

    assert not lock_of(table).exists()


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda t: restore_request(t, at(2), seen_up_to=at(3)), id="refused"),
        pytest.param(lambda t: restore_request(t, at(9)), id="of no savepoint"),
    ],
)
def test_what_a_killed_restorer_left_goes_whatever_becomes_of_the_next_request(
    table: HandMade, request_of: Callable[[HandMade], RestoreRequested]
) -> None:
    lock_of(table).write_text(json.dumps({"lockThreadName": "tidegate restore another"}))

    (refused,) = restore(table, HELD, request_of(table))

    assert isinstance(refused, RestoreRejected)
    assert not lock_of(table).exists()


def test_it_goes_with_the_next_restore_too_where_none_is_held_any_more(table: HandMade) -> None:
    lock_of(table).write_text(json.dumps({"lockThreadName": "tidegate restore another"}))

    *_, last = restore(table, RestoreSettings(watch_seconds=0))

    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_a_dry_run_leaves_it(table: HandMade) -> None:
    left = json.dumps({"lockThreadName": "tidegate restore another"})
    lock_of(table).write_text(left)

    restore(table, HELD, restore_request(table, at(2), plan_only=True))

    assert lock_of(table).read_text() == left


def test_a_refused_request_leaves_that_of_a_restore_that_runs(table: HandMade) -> None:
    """As when a partition was taken from the process that still restores."""
    running = restorer_of(table, HELD).execute(restore_request(table, at(2)))
    assert isinstance(next(running), RestoreStarted)
    held = lock_of(table).read_text()

    (refused,) = restore(table, HELD, restore_request(table, at(9)))

    assert isinstance(refused, RestoreRejected)
    assert lock_of(table).read_text() == held
    *_, last = running
    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_of_two_processes_with_one_request_the_first_leaves_the_second_its_lock(
    table: HandMade,
) -> None:
    command = restore_request(table, at(2))
    first = restorer_of(table, HELD).execute(command)
    second = restorer_of(table, HELD).execute(command)
    for outcomes in (first, second):
        assert isinstance(next(outcomes), RestoreStarted)

    assert isinstance(first, Generator)
    first.close()

    assert lock_of(table).exists()
    *_, last = second
    assert isinstance(last, RestoreCompleted)
    assert not lock_of(table).exists()


def test_a_writer_s_that_is_gone_when_it_is_read_is_not_held(
    table: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(table)
    is_ours = liveness.is_ours

    def gone(storage: Storage, path: str) -> bool:
        lock_of(table).unlink(missing_ok=True)
        return is_ours(storage, path)

    monkeypatch.setattr(liveness, "is_ours", gone)

    *_, last = restore(table)

    assert isinstance(last, RestoreCompleted)
