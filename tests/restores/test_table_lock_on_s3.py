"""The locks of a restore on a real S3 server, with that of Hudi's StorageBasedLockProvider."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.hudi_tables import (
    HandMade,
    at,
    four_commits,
    restore_request,
    savepoint_request,
    warehouse_over,
)
from support.s3 import BUCKET, Request, S3Server, s3_server
from support.stepwise import Killed, Stepwise, killed_at
from support.waiting import wait_for
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.events import Outcome, RestoreCompleted, RestoreRejected
from tidegate.events.reasons import Reason
from tidegate.restores import storage_lock
from tidegate.restores.context import RestoreContext
from tidegate.restores.executor import Restorer
from tidegate.restores.liveness import holding_lock
from tidegate.restores.settings import RestoreSettings
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import Storage
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

TABLE = f"s3://{BUCKET}/wh/t"
FILE_LOCK, LOCK = "wh/t/.hoodie/lock", "wh/t/.hoodie/.locks/table_lock.json"
START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
HELD = RestoreSettings(watch_seconds=0, hold_lock=True)


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Scene:
    """A server with a table of four commits, the second of them with a savepoint."""

    server: S3Server
    table: HandMade
    clock: Clock = field(default_factory=Clock)

    def upload(self) -> None:
        keys = [{"Key": key} for key in self.server.all_keys()]
        if keys:
            self.server.client().delete_objects(Bucket=BUCKET, Delete={"Objects": keys})
        self.server.put_folder(self.table.path, "wh/t")

    def stored(self) -> dict[str, str]:
        """The ETags of all objects but the file lock."""
        listed = self.server.client().list_objects_v2(Bucket=BUCKET)["Contents"]
        return {entry["Key"]: entry["ETag"] for entry in listed if entry["Key"] != FILE_LOCK}

    def lock(self) -> dict[str, Any]:
        found: dict[str, Any] = json.load(
            self.server.client().get_object(Bucket=BUCKET, Key=LOCK)["Body"]
        )
        return found

    def write_lock(self, owner: str = "a-writer", *, expired: bool = False) -> None:
        """Write the lock file as a writer does."""
        until = int((self.clock.now + timedelta(minutes=5)).timestamp() * 1000)
        content = json.dumps({"expired": expired, "validUntil": until, "owner": owner})
        self.server.client().put_object(Bucket=BUCKET, Key=LOCK, Body=content)

    def context(self) -> RestoreContext:
        return RestoreContext(self.server.warehouse(), ThreadMap(1), self.clock, HELD)

    def restore(
        self, warehouse: Warehouse | None = None, claim: AnyClaim = NO_CLAIM
    ) -> list[Outcome]:
        used = warehouse or self.server.warehouse()
        command = restore_request(self.table, at(2)).model_copy(update={"location": TABLE})
        return list(Restorer(used, ThreadMap(1), self.clock, HELD).execute(command, claim))


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    table = four_commits(tmp_path / "t", 9)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(), Clock())
    list(writer.execute(savepoint_request(table, at(2))))
    with s3_server() as server:
        made = Scene(server, table)
        made.upload()
        yield made


def test_both_locks_are_held_while_a_restore_runs_and_writers_get_them_back(scene: Scene) -> None:
    with holding_lock(scene.context(), TABLE, "r1"):
        held = scene.lock()
        assert FILE_LOCK in scene.server.all_keys()

    assert FILE_LOCK not in scene.server.all_keys()
    assert held.pop("owner").startswith("tidegate restore r1 ")
    assert held == {"expired": False, "validUntil": (START.timestamp() + 300) * 1000}
    assert scene.lock()["expired"] is True


@pytest.mark.parametrize("lost", [1, 2])
def test_a_restorer_whose_write_was_not_answered_knows_its_lock(scene: Scene, lost: int) -> None:
    """The client repeats the request, and the server refuses it: the file is new by then."""
    puts = list[Request]()

    def lose(request: Request) -> bool:
        if request[0] == "PUT" and request[1].startswith(f"/{BUCKET}/{LOCK}"):
            puts.append(request)
        return len(puts) == lost and request is puts[-1]

    scene.server.loses_answer = lose
    with holding_lock(scene.context(), TABLE, "r1") as held:
        scene.clock.now += timedelta(minutes=4)
        held.check()
        assert scene.lock()["validUntil"] == (scene.clock.now.timestamp() + 300) * 1000
    assert scene.lock()["expired"] is True
    assert len(puts) == 4


def test_who_got_no_answer_at_all_holds_it_at_the_next_attempt(scene: Scene) -> None:
    scene.server.loses_answer = lambda request: request[0] == "PUT" and LOCK in request[1]
    with pytest.raises(TransientError), holding_lock(scene.context(), TABLE, "r1"):
        pass

    scene.server.loses_answer = lambda _: False
    with holding_lock(scene.context(), TABLE, "r1") as held:
        held.check()


def test_a_file_lock_whose_creation_was_not_answered_is_held_and_removed(scene: Scene) -> None:
    lost = list[Request]()

    def lose_first(request: Request) -> bool:
        is_first = request[0] == "PUT" and request[1].startswith(f"/{BUCKET}/{FILE_LOCK}")
        if is_first:
            lost.append(request)
        return is_first and len(lost) == 1

    scene.server.loses_answer = lose_first
    with holding_lock(scene.context(), TABLE, "r1"):
        assert FILE_LOCK in scene.server.all_keys()
    assert FILE_LOCK not in scene.server.all_keys()
    assert len(lost) == 2


def test_a_file_lock_of_a_writer_is_refused_and_left(scene: Scene) -> None:
    scene.server.put(FILE_LOCK)
    with pytest.raises(Refused, match="is held"), holding_lock(scene.context(), TABLE, "r1"):
        pass
    assert FILE_LOCK in scene.server.all_keys()


def test_a_writer_s_lock_refuses_a_restore_that_changes_nothing(scene: Scene) -> None:
    scene.write_lock()
    before = scene.stored()

    (refused,) = scene.restore()

    assert isinstance(refused, RestoreRejected)
    assert refused.reason == Reason.WRITER_ALIVE
    assert scene.stored() == before
    assert FILE_LOCK not in scene.server.all_keys()


def test_so_does_one_that_is_taken_after_the_look(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidegate.restores.preparation.check_writers", lambda *_: scene.write_lock()
    )

    (refused,) = scene.restore()

    assert isinstance(refused, RestoreRejected)
    assert refused.reason == Reason.WRITER_ALIVE
    assert scene.lock()["owner"] == "a-writer"


@pytest.mark.parametrize("exists", [False, True])
def test_so_does_one_that_is_taken_in_the_very_moment(scene: Scene, *, exists: bool) -> None:
    if exists:
        scene.write_lock(expired=True)

    def take(request: Request) -> None:
        if request[0] == "PUT" and request[1].startswith(f"/{BUCKET}/{LOCK}"):
            scene.server.before = repr
            scene.write_lock()

    scene.server.before = take

    (refused,) = scene.restore()

    assert isinstance(refused, RestoreRejected)
    assert scene.lock()["owner"] == "a-writer"


@pytest.mark.parametrize(
    ("passed", "held"),
    [
        pytest.param(timedelta(minutes=5), True, id="not quite over"),
        pytest.param(timedelta(minutes=5, milliseconds=500), True, id="clocks may differ"),
        pytest.param(timedelta(minutes=5, milliseconds=501), False, id="over"),
    ],
)
def test_a_lock_that_its_writer_did_not_renew_ends_by_itself(
    scene: Scene, passed: timedelta, *, held: bool
) -> None:
    scene.write_lock()
    scene.clock.now += passed

    *_, last = scene.restore()

    assert isinstance(last, RestoreRejected if held else RestoreCompleted)


def test_a_file_that_is_not_a_lock_keeps_no_restore_away(scene: Scene) -> None:
    scene.server.put("wh/t/.hoodie/.locks/audit_enabled.json")
    scene.write_lock(expired=True)

    *_, last = scene.restore()

    assert isinstance(last, RestoreCompleted)


def test_a_lock_that_can_not_be_read_is_held(scene: Scene) -> None:
    scene.server.put(LOCK)
    with pytest.raises(Refused, match="is held"), holding_lock(scene.context(), TABLE, "r1"):
        pass


def test_it_is_renewed_while_a_long_step_runs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_lock, "_RENEWAL", timedelta(milliseconds=10))
    with holding_lock(scene.context(), TABLE, "r1"):
        first = scene.lock()["validUntil"]
        scene.clock.now += timedelta(seconds=31)
        wait_for("a renewal", lambda: scene.lock()["validUntil"] == first + 31_000)


@dataclass
class Stalling(AnyClaim):
    """A claim at whose checks a restorer stalls until its lock has expired."""

    scene: Scene
    taken_at: int = 0
    """The check at which a writer then takes the lock; 0: at none."""
    checks: int = 0
    before: dict[str, str] = field(default_factory=dict[str, str])
    """The stored objects when the writer had taken it."""

    def check(self) -> None:
        self.checks += 1
        self.scene.clock.now += timedelta(minutes=6)
        if self.checks == self.taken_at:
            self.scene.write_lock()
            self.before = self.scene.stored()

    def check_if_old(self) -> None:
        self.check()


def test_a_stalled_restorer_whose_lock_was_not_taken_goes_on(scene: Scene) -> None:
    claim = Stalling(scene)
    *_, last = scene.restore(claim=claim)
    assert isinstance(last, RestoreCompleted)
    assert claim.checks > 10


def test_a_stalled_restorer_changes_nothing_more_once_a_writer_has_its_lock(scene: Scene) -> None:
    claim = Stalling(scene)
    while claim.checks >= claim.taken_at:
        scene.upload()
        claim = Stalling(scene, claim.taken_at + 1)
        with suppress(TransientError):
            *_, last = scene.restore(claim=claim)
            assert isinstance(last, RestoreCompleted)
            assert claim.checks < claim.taken_at
            continue
        assert scene.stored() == claim.before
    assert claim.checks > 10


def test_a_lock_that_is_taken_in_the_moment_of_its_renewal_is_lost(scene: Scene) -> None:
    def take(request: Request) -> None:
        if request[0] == "PUT":
            scene.server.before = repr
            scene.write_lock()

    with holding_lock(scene.context(), TABLE, "r1") as held:
        scene.clock.now += timedelta(minutes=6)
        scene.server.before = take
        with pytest.raises(TransientError, match="was taken by another process"):
            held.check()
    assert scene.lock()["owner"] == "a-writer"


def test_a_lock_that_was_taken_and_given_back_meanwhile_is_lost(scene: Scene) -> None:
    with holding_lock(scene.context(), TABLE, "r1") as held:
        scene.write_lock(expired=True)
        with pytest.raises(TransientError, match="was taken by another process"):
            held.check()


@pytest.mark.parametrize("step", [3, 8])
def test_the_lock_of_a_killed_restorer_ends_by_itself_and_its_successor_need_not_wait(
    scene: Scene, step: int
) -> None:
    dead = Stepwise(f"s3://{BUCKET}/wh", killed_at(step), scene.server.options())
    with pytest.raises(Killed):
        scene.restore(dead)
    left = storage_lock.read_lock(Storage(scene.server.options()), f"s3://{BUCKET}/{LOCK}")
    assert left is not None
    assert left.is_held(scene.clock.now)
    assert not left.is_held(scene.clock.now + timedelta(minutes=6))

    *_, last = scene.restore()

    assert isinstance(last, RestoreCompleted)
    assert scene.lock()["expired"] is True
