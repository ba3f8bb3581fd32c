"""SIGKILL of every service at random moments: nothing is lost, nothing done twice."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from demo.environment import DemoEnvironment
from demo.report import DemoReport
from support.acid_orc import AcidTable
from support.hudi_tables import at, end_of, four_commits
from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.process import Child
from tidegate.events import (
    DirectoriesCleaned,
    Event,
    LockHold,
    RestoreCompleted,
    SavepointCreated,
    SavepointRemoved,
    SavepointsChecked,
    TaskEnd,
    TaskEnded,
    VacuumKind,
)
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.publisher import Publisher
from tidegate.service.assembly import SERVICES

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS = 5
"""Of SIGKILL alone; the twenty with more disturbances are among the tests that take minutes."""
ROUNDS_OF_ALL = 20
KILL_WINDOW = 3.0
LEAVE_SECONDS = 30
SNAPSHOT = "shop.log:3:9223372036854775807::"
INSTANCE_ID = "TIDEGATE_SERVICES__INSTANCE_ID"
RUN_DEPENDENT = {"event_id", "table", "location", "occurred_at", "caused_by", "duration_ms"}
# What a second attempt says of itself, and how much was left for it to do.
ATTEMPT_DEPENDENT = {"already_there", "resumed", "restore_instant"}


@pytest.fixture
def stage(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DemoEnvironment]:
    for name in ("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")  # the stage sets them: put back what was there at the end
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    quiet = DemoReport(Console(quiet=True))
    with DemoEnvironment(tmp_path, quiet, topic_prefix, spark_from_items=1000) as ready:
        yield ready


@dataclass(frozen=True)
class Round:
    """The demo's events on tables of their own."""

    stage: DemoEnvironment
    publisher: Publisher
    name: str

    @property
    def folder(self) -> Path:
        return self.stage.warehouse / self.name

    def subject(self, table: str) -> dict[str, Any]:
        return {"table": f"{self.name}.shop.{table}", "location": str(self.folder / table)}

    def play(self) -> None:
        for table in ("customers", "orders"):
            four_commits(self.folder / table, 9)
        log = AcidTable(self.folder / "log", {"id": "bigint"})
        for write_id in (1, 2, 3):
            log.insert(write_id, [(write_id,)])
        made = log.compact_minor(1, 3, ValidWriteIds.parse(SNAPSHOT))

        self.publisher.commit(**self.subject("customers"), instant=at(4))
        self.publisher.request_savepoint(
            **self.subject("orders"), instant=at(2), requested_by="ana"
        )
        self.publisher.vacuum_finished(
            **self.subject("log"),
            kind=VacuumKind.MINOR,
            directories=made,
            min_write_id=1,
            max_write_id=3,
            valid_write_ids=SNAPSHOT,
            own_lock_id=1,
            locks=[LockHold(lock_id=n) for n in (1, 2, 3)],
        )
        self.publisher.lock_released(**self.subject("log"), lock_id=1)
        self.wait_for(SavepointCreated, "customers")
        self.wait_for(SavepointCreated, "orders")
        self.publisher.request_savepoint_removal(
            **self.subject("customers"), instant=at(4), requested_by="ana", reason="done"
        )
        self.publisher.lock_released(**self.subject("log"), lock_id=2)
        self.publisher.request_restore(
            **self.subject("orders"),
            savepoint=at(2),
            requested_by="ana",
            reason="bad",
            seen_up_to=end_of(at(4)),
        )
        self.wait_for(RestoreCompleted, "orders")
        assert len(list((self.folder / "log").iterdir())) == 4
        self.wait_for(SavepointRemoved, "customers")
        self.publisher.lock_released(**self.subject("log"), lock_id=3)
        self.wait_for(DirectoriesCleaned, "log")

    def wait_for(self, kind: type[Event], table: str) -> None:
        identity = self.subject(table)["table"]
        self.stage.wait_for(
            f"{kind.__name__} of {identity}",
            lambda: any(
                isinstance(outcome, kind) and outcome.table == identity
                for outcome in self.stage.outcomes()
            ),
        )

    def tree(self) -> list[str]:
        """Every file; instants that the restore itself took are NOW, kept answers are ANSWER."""
        names = (str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        shown = (re.sub(r"20\d{15}", _instant, name) for name in names)
        return sorted(re.sub(r"\.tidegate/.*", "ANSWER", name) for name in shown)

    def outcomes(self) -> list[dict[str, Any]]:
        """The events of this round's tables, without what differs from run to run."""
        events = [e for e in self.stage.outcomes() if e.table.startswith(self.name)]
        # a task that is read again is answered with the table's later number, which counts nowhere
        copies = [e for e in events if isinstance(e, TaskEnded) and e.end is TaskEnd.NUMBER_TAKEN]
        return sorted((_said(event) for event in events if event not in copies), key=str)


def _instant(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("20260301") else "NOW"


def _said(event: Event) -> dict[str, Any]:
    left_out = RUN_DEPENDENT | ATTEMPT_DEPENDENT
    if isinstance(event, DirectoriesCleaned):  # CleaningStarted tells all; this, what was left
        left_out |= {"directories", "files", "bytes"}
    if isinstance(event, SavepointCreated):  # times, and what an attempt that died did not record
        left_out |= {"decided_at", "savepoints", "bytes", "derived_from", "listed_because"}
    if isinstance(event, SavepointRemoved):
        left_out |= {"made_at"}
    if isinstance(event, SavepointsChecked):  # a time
        left_out |= {"oldest_at"}
    said = event.model_dump(exclude=left_out, mode="json")
    return {"kind": type(event).__name__, "of": event.table.rsplit(".", 1)[-1], **said}


def kill_each_service_once(stage: DemoEnvironment, dice: random.Random) -> threading.Thread:
    """SIGKILL every service at a moment of its own, and start it again at once."""
    moments = sorted((dice.uniform(0, KILL_WINDOW), name) for name in SERVICES)

    def kill() -> None:
        began = time.monotonic()
        for moment, name in moments:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            kill_and_start(stage, name)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def play_rounds(
    stage: DemoEnvironment,
    disturb: Callable[[DemoEnvironment, random.Random], threading.Thread],
    rounds: int,
) -> None:
    """Play one round undisturbed, then disturbed ones: all must end in the same way."""
    dice = random.Random(20261121)  # noqa: S311 - the same moments in every run
    with stage.publisher() as publisher:
        calm = Round(stage, publisher, "calm")
        calm.play()
        stage.wait_until_idle()
        expected_tree, expected_outcomes = calm.tree(), calm.outcomes()
        assert Counter(outcome["kind"] for outcome in expected_outcomes) == {
            "SavepointCreated": 2,
            "SavepointRemoved": 1,
            "RestoreStarted": 1,
            "RestoreCompleted": 1,
            "CleaningStarted": 1,
            "DirectoriesCleaned": 1,
            "SavepointsChecked": 1,
            "TaskEnded": 5,
        }
        for number in range(rounds):
            disturbed = Round(stage, publisher, f"round_{number:02}")
            disturbance = disturb(stage, dice)
            disturbed.play()
            disturbance.join()
            stage.wait_until_idle()
            assert disturbed.tree() == expected_tree
            assert disturbed.outcomes() == expected_outcomes
    assert stage.dead_letters() == []


def test_rounds_of_sigkill_end_as_an_undisturbed_run_does(stage: DemoEnvironment) -> None:
    play_rounds(stage, kill_each_service_once, ROUNDS)


class Supervised(DemoEnvironment):
    """Starts a service again that has stopped, as a supervisor does; a broker of its own.

    The services are static members, those that join beside them are dynamic ones.
    """

    broker: EmbeddedBroker

    def _check_alive(self) -> None:
        for name, child in tuple(self._children.items()):
            if child.exit_code not in (None, -signal.SIGKILL):
                self.start_services([name])

    def join(self, name: str) -> Child:
        """Start a second member of a service's group."""
        command = [
            "/usr/bin/env",
            "-u",
            INSTANCE_ID,
            sys.executable,
            "-m",
            "tidegate.cli",
            "run",
            name,
            "-v",
        ]
        settings = str(self.folder / f"{name}.toml")
        return Child([*command, "--config", settings], self.folder / f"{name}.second.log")

    def freeze_the_broker(self, seconds: float) -> None:
        """Nothing comes from it and nothing is refused, also for longer than a session lasts."""
        assert self.broker.pid is not None
        os.kill(self.broker.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self.broker.pid, signal.SIGCONT)


@pytest.fixture
def supervised(
    topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Supervised]:
    for name in ("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv(INSTANCE_ID, "first")
    quiet = DemoReport(Console(quiet=True))
    with EmbeddedBroker(tmp_path / "broker") as broker:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        ready = Supervised(tmp_path / "place", quiet, topic_prefix, spark_from_items=1000)
        ready.broker = broker
        with ready:
            yield ready


class SecondMember:
    """Joins a service's group beside the first, and leaves it again."""

    def __init__(self, stage: Supervised, name: str) -> None:
        self.stage, self.name = stage, name
        self.process: Child | None = None

    def join(self) -> None:
        self.process = self.stage.join(self.name)

    def leave(self) -> None:
        assert self.process is not None
        if not self.process.end(signal.SIGTERM, LEAVE_SECONDS):
            self.process.end(signal.SIGKILL, 20)
            log = self.process.log
            raise AssertionError(f"{log}: not ended {LEAVE_SECONDS} s after SIGTERM")


def kill_and_start(stage: DemoEnvironment, name: str) -> None:
    stage.kill_services([name])
    stage.start_services([name])


def kill_join_leave_and_freeze(stage: DemoEnvironment, dice: random.Random) -> threading.Thread:
    """In any order: every service killed once, two joined and left again, the broker frozen."""
    assert isinstance(stage, Supervised)
    steps: list[tuple[float, Callable[[], object]]] = []
    for name in SERVICES:
        steps += [(dice.uniform(0, KILL_WINDOW), partial(kill_and_start, stage, name))]
    for name in dice.sample(list(SERVICES), 2):
        member, joined = SecondMember(stage, name), dice.uniform(0, KILL_WINDOW)
        steps += [(joined, member.join), (joined + dice.uniform(1, 4), member.leave)]
    frozen_for = dice.uniform(0.5, 5)
    steps += [(dice.uniform(0, KILL_WINDOW), partial(stage.freeze_the_broker, frozen_for))]

    def disturb() -> None:
        began = time.monotonic()
        for moment, step in sorted(steps, key=itemgetter(0)):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            step()

    thread = threading.Thread(target=disturb)
    thread.start()
    return thread


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_twenty_rounds_with_joins_leaves_and_a_frozen_broker_end_as_an_undisturbed_run_does(
    supervised: Supervised,
) -> None:
    play_rounds(supervised, kill_join_leave_and_freeze, ROUNDS_OF_ALL)
