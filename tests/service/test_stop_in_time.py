"""A process that was asked to stop has ended in time, whatever it was doing, and loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from support import pausing_gate, stuck_writer
from support.deployment import Deployment, exit_code
from support.hudi_tables import at, four_commits, savepoint_request
from support.pausing_gate import LOCK, reached
from support.samples import release, task_of
from support.waiting import wait_for
from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.process import Child
from tidegate.events import AttemptFailed, LockHold, TaskIssued, VacuumFinished
from tidegate.events.wire import Wire, command_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STOP_SECONDS = 6
LATE = 20.0
"""Seconds that a busy machine may take to notice."""
SETTINGS = f"stop_seconds = {STOP_SECONDS}"


def seconds_to_stop(process: Child) -> tuple[float, int]:
    """Send SIGTERM; how long the process then takes, and its exit code."""
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    code = exit_code(process, STOP_SECONDS + 90)
    return time.monotonic() - began, code


def committed(deployment: Deployment, service: str) -> int:
    group = f"{deployment.prefix}.{service}"
    asking = Consumer({**deployment.connection, "group.id": group, "log_level": 0})
    [where] = asking.committed([TopicPartition(f"{deployment.prefix}.tasks", 0)], timeout=60)
    asking.close()
    return max(0, where.offset)


@pytest.mark.parametrize(
    ("how", "code", "shown"),
    [
        pytest.param("endless", 1, "still ran a command", id="a call that never returns"),
        pytest.param("away", 0, "leaves 1 commands to its successor", id="storage that is away"),
    ],
)
def test_a_writer_that_is_stuck_ends_in_time_and_acknowledges_nothing(
    deployment: Deployment, tmp_path: Path, how: str, code: int, shown: str
) -> None:
    begun = tmp_path / "begun"
    table = four_commits(tmp_path / "orders", 9)
    deployment.publisher().publish(task_of(savepoint_request(table, at(2))))
    program = [stuck_writer.__file__, str(begun), how]
    writer = deployment.run("savepoint-writer", program=program)
    wait_for("the task", begun.exists)
    seconds, ended_with = seconds_to_stop(writer)

    assert seconds < STOP_SECONDS + LATE
    assert ended_with == code
    assert shown in writer.log.read_text()
    assert committed(deployment, "savepoint-writer") == 0
    assert {type(event) for event in deployment.events("outcomes")} <= {AttemptFailed}
    assert deployment.records("dead-letters") == []


def vacuum() -> VacuumFinished:
    subject = release(LOCK).model_dump(include={"table", "location", "occurred_at", "source"})
    return VacuumFinished.model_validate(
        subject
        | {
            "kind": "minor",
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": "sales.orders:3:9223372036854775807::",
            "own_lock_id": LOCK,
            "locks": (LockHold(lock_id=LOCK),),
        }
    )


@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param(1, id="one partition"),
        pytest.param(3, id="several at a time", marks=pytest.mark.full),
    ],
)
def test_a_gate_whose_broker_is_away_ends_in_time_and_its_successor_loses_nothing(
    partitions: int, topic_prefix: str, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    with (
        EmbeddedBroker(tmp_path / "kafka") as broker,
        Deployment(
            broker.bootstrap_servers,
            topic_prefix,
            tmp_path,
            partitions=partitions,
            settings=SETTINGS,
        ) as place,
    ):
        assert broker.pid is not None
        place.publisher().publish(vacuum(), release(LOCK))
        gate = place.run("coordinator", "gate", program=[pausing_gate.__file__, str(go_on)])
        wait_for("the middle of the gate's work", reached(go_on).exists)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            go_on.touch()  # from here on it tries to publish the command
            seconds, code = seconds_to_stop(gate)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert seconds < STOP_SECONDS + LATE
        assert code == 1
        assert "still waited for the broker" in gate.log.read_text()
        assert "the process ends by force" not in gate.log.read_text()

        place.run("coordinator", "successor")
        wait_for("the task", lambda: place.records("tasks"))
        tasks = [task for task in place.events("tasks") if isinstance(task, TaskIssued)]
        carried = {(task.number, command_of(task, Wire()).caused_by) for task in tasks}
        assert carried == {(1, vacuum().event_id)}


def test_a_process_whose_log_is_read_by_nothing_ends_in_time(deployment: Deployment) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, bytes(4096))
    os.set_blocking(write_end, True)
    file = deployment.settings_file("blocked", {})
    command = [sys.executable, "-m", "tidegate.cli", "run", "coordinator", "-c", str(file)]
    environment = {key: it for key, it in os.environ.items() if key != "KAFKA_BOOTSTRAP_SERVERS"}
    with subprocess.Popen(
        command, stdout=write_end, stderr=write_end, env=environment
    ) as coordinator:
        waits_in = Path(f"/proc/{coordinator.pid}/wchan")
        wait_for("the log blocks it", lambda: "pipe_write" in waits_in.read_text())
        coordinator.terminate()
        try:
            assert coordinator.wait(STOP_SECONDS + LATE) == 1
        finally:
            coordinator.kill()
    os.close(read_end)
    os.close(write_end)
