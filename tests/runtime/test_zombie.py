"""Rules 4 and 7 on a real broker, with real processes: zombies, gaps, topics made anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from support import pausing_gate
from support.deployment import Deployment, exit_code
from support.kafka import create_topic
from support.pausing_gate import LOCK, reached
from support.waiting import wait_for
from tidegate.coordinator.rows.position import POSITION_KEY
from tidegate.events import LockHold, LockReleased, TaskIssued, VacuumFinished, VacuumKind
from tidegate.events.topics import LOCKS
from tidegate.events.wire import Wire, command_of
from tidegate.runtime.bus import Record

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TABLES = 3
SUBJECT: dict[str, Any] = {"source": "bridge", "occurred_at": datetime(2026, 11, 21, tzinfo=UTC)}


def vacuum(table: int, locks: Iterable[int] = (LOCK,)) -> VacuumFinished:
    return VacuumFinished(
        **SUBJECT,
        table=f"lake.log.t{table}",
        location=f"/lake/t{table}",
        kind=VacuumKind.MINOR,
        directories=("delta_0000001_0000003",),
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=f"log.t{table}:3:9223372036854775807::",
        own_lock_id=0,
        locks=tuple(LockHold(lock_id=lock) for lock in locks),
    )


def release(table: int, lock_id: int) -> LockReleased:
    return LockReleased(
        **SUBJECT, table=f"lake.log.t{table}", location=f"/lake/t{table}", lock_id=lock_id
    )


def states_written(deployment: Deployment) -> int:
    written = deployment.records("coordinator.changelog")
    return sum(b"\x00vacuum\x00" in (record.key or b"") for record in written)


def entries(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    """The records without positions."""
    return [(record.key, record.value) for record in records if record.key != POSITION_KEY]


def test_a_zombie_cannot_overwrite_its_successors_state(
    deployment: Deployment, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    publisher = deployment.publisher()
    publisher.publish(*(vacuum(table) for table in range(TABLES)))
    zombie = deployment.run("coordinator", "zombie", program=[pausing_gate.__file__, str(go_on)])
    wait_for("a first state", lambda: states_written(deployment) == TABLES)
    publisher.publish(*(release(table, LOCK) for table in range(TABLES)))
    wait_for("the middle of the zombie's work", reached(go_on).exists)
    os.kill(zombie.pid, signal.SIGSTOP)
    go_on.touch()

    deployment.run("coordinator", "successor")
    expected = {vacuum(table).event_id for table in range(TABLES)}
    wait_for("the successor's tasks", lambda: len(deployment.records("tasks")) == TABLES)
    wait_for("the successor's memory", lambda: states_written(deployment) == 2 * TABLES)
    successors = entries(deployment.records("coordinator.changelog"))
    os.kill(zombie.pid, signal.SIGCONT)

    assert exit_code(zombie) == 1
    assert "has opened" in zombie.log.read_text()
    assert entries(deployment.records("coordinator.changelog")) == successors
    tasks = [event for event in deployment.events("tasks") if isinstance(event, TaskIssued)]
    assert len(tasks) == TABLES, "the zombie was fenced before it published anything"
    assert {command_of(task, Wire()).caused_by for task in tasks} == expected


def test_rule_7_events_that_retention_took_stop_the_service_with_a_clear_sentence(
    deployment: Deployment,
) -> None:
    publisher = deployment.publisher()
    publisher.publish(vacuum(0, range(5)))
    first = deployment.run("coordinator", "first")
    wait_for("a first state", lambda: states_written(deployment))
    first.end(signal.SIGTERM, 20)
    publisher.publish(*(release(0, lock_id) for lock_id in range(5)))
    locks = f"{deployment.prefix}.locks"
    admin = AdminClient({"bootstrap.servers": deployment.servers, "log_level": 0})
    publisher.publish(release(1, 0))
    for deleted in admin.delete_records([TopicPartition(locks, 0, 5)]).values():
        deleted.result(60)

    second = deployment.run("coordinator", "second")

    assert exit_code(second) == 1
    assert f"{locks}" in (shown := second.log.read_text())
    assert "events would be skipped" in shown.splitlines()[-1]
    assert deployment.records("tasks") == []


def test_rule_7_a_topic_created_again_is_not_taken_for_the_old_one(deployment: Deployment) -> None:
    publisher = deployment.publisher()
    publisher.publish(vacuum(0, range(3)), release(0, 0), release(0, 1))
    first = deployment.run("coordinator", "first")
    wait_for("a first state", lambda: b"locks" in state(deployment))
    first.end(signal.SIGTERM, 20)
    locks = f"{deployment.prefix}.locks"
    admin = AdminClient({"bootstrap.servers": deployment.servers, "log_level": 0})
    for deleted in admin.delete_topics([locks]).values():
        deleted.result(60)
    wait_for("the end of the topic", lambda: locks not in admin.list_topics(timeout=60).topics)
    settings = {name.replace(".", "_"): value for name, value in LOCKS.settings().items()}
    create_topic(deployment.servers, locks, 1, **settings)
    with deployment.publisher() as anew:
        anew.publish(*(release(1, n) for n in range(1)), release(0, 2))

    second = deployment.run("coordinator", "second")

    assert exit_code(second) == 1
    assert f"tidegate: {locks} was deleted and created again" in second.log.read_text()
    assert deployment.records("tasks") == []


def state(deployment: Deployment) -> bytes:
    records = deployment.records("coordinator.changelog")
    return b"".join(record.value or b"" for record in records)
