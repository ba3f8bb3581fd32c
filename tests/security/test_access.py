"""TLS, SCRAM and access rights on a real broker: who may produce, and who may consume."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.deployment import Deployment, exit_code
from support.samples import NOON, commit, release, savepoint_request
from support.secure_kafka import SecureKafka, password, secure_kafka
from support.waiting import wait_for
from tidegate.errors import DeliveryRefusedError, StopService
from tidegate.events import Event, LockHold, RestoreRejected, VacuumFinished, VacuumKind
from tidegate.ops.acls import acls
from tidegate.publisher import Message, Publisher
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import SERVICES

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PREFIX = "secure"
INSTANT = "20260301100000001"
AT_ONCE = 20.0
"""Seconds on a busy machine; a client that tries again does so for thirty."""
TABLE: dict[str, Any] = {"table": "lake.sales.orders", "location": "/lake/orders"}
SETTINGS = """
[restores]
requested_by = ["ana", "ops-*"]
[[savepoints]]
tables = "*.policed"
when = "every_commit"
lifetime = "forever"
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure_kafka(tmp_path_factory.mktemp("secure")) as kafka:
        kafka.allow(acls(PREFIX))
        yield kafka


@pytest.fixture
def deployment(kafka: SecureKafka, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(
        kafka.servers, PREFIX, tmp_path, client=kafka.admin, settings=SETTINGS
    ) as deployment:
        yield deployment


def publisher(kafka: SecureKafka, role: str, **other: str) -> Publisher:
    config = kafka.login(role) | other
    return Publisher(kafka.servers, source=role, prefix=PREFIX, config=config)


@pytest.mark.usefixtures("deployment")
def test_a_writer_may_publish_facts_and_no_command(kafka: SecureKafka) -> None:
    with publisher(kafka, "upstream-writers") as writer:
        assert len(writer.publish(commit(1), release(1))) == 2
        began = time.monotonic()
        with pytest.raises(DeliveryRefusedError, match=r"secure\.requests.*authorization failed"):
            writer.publish(savepoint_request(1))
        assert time.monotonic() - began < AT_ONCE
        assert len(writer.publish(commit(2))) == 1


@pytest.mark.usefixtures("deployment")
def test_a_wrong_password_is_refused_at_once_and_not_shown(kafka: SecureKafka) -> None:
    wrong = {"sasl.password": "a-wrong-password"}
    with publisher(kafka, "people", **wrong) as people:
        began = time.monotonic()
        with pytest.raises(DeliveryRefusedError, match="Authentication failed") as caught:
            people.publish(savepoint_request(1))
        assert time.monotonic() - began < AT_ONCE
    assert "a-wrong-password" not in str(caught.value)


def test_every_service_works_with_the_rights_that_are_listed_for_it(
    kafka: SecureKafka, deployment: Deployment
) -> None:
    children = [deployment.run(name, name, kafka.login(name)) for name in SERVICES]
    with publisher(kafka, "bridges") as bridge, publisher(kafka, "people") as people:
        bridge.publish(commit(7, "lake.sales.policed"), vacuum(), release(1, "lake.log.t"))
        people.publish(savepoint_request(7))
        people.request_restore(**TABLE, savepoint=INSTANT, requested_by="eve", reason="bad")
        people.request_restore(**TABLE, savepoint=INSTANT, requested_by="ana", reason="bad")
    connection = {**kafka.admin, "bootstrap.servers": kafka.servers}
    KafkaBus(connection).send(
        [Message(f"{PREFIX}.{topic}", b"k", b"poison") for topic in ("vacuums", "commits")]
    )

    expected = {
        ("cleaner", "CleaningRefused", "lake.log.t"),
        ("cleaner", "TaskEnded", "lake.log.t"),
        ("coordinator", "RestoreRejected not-allowed", "lake.sales.orders"),
        ("restorer", "RestoreRejected outside-warehouse", "lake.sales.orders"),
        ("restorer", "TaskEnded", "lake.sales.orders"),
        ("savepoint-writer", "SavepointRejected", "lake.sales.orders"),
        ("savepoint-writer", "TaskEnded", "lake.sales.orders"),
        ("savepoint-writer", "SavepointRejected", "lake.sales.policed"),
        ("savepoint-writer", "TaskEnded", "lake.sales.policed"),
    }
    try:
        wait_for("the outcomes", lambda: len(said(deployment)) >= len(expected))
        wait_for("two dead letters", lambda: len(deployment.records("dead-letters")) >= 2)
    finally:
        shown = "\n".join(child.tail() for child in children)
    assert said(deployment) == expected, shown
    for child in children:
        child.end(signal.SIGTERM, 20)
    assert [child.exit_code for child in children] == [0] * len(children)
    logs = "".join(child.log.read_text() for child in children)
    assert [name for name in SERVICES if password(name) in logs] == []


def said(deployment: Deployment) -> set[tuple[str, str, str]]:
    return {
        (event.source, f"{type(event).__name__}{reason(event)}", event.table)
        for event in deployment.events("outcomes")
    }


def reason(event: Event) -> str:
    return f" {event.reason}" if isinstance(event, RestoreRejected) else ""


def vacuum() -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "source": "bridge",
            "occurred_at": NOON,
            "table": "lake.log.t",
            "location": "/lake/t",
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": "log.t:3:9223372036854775807::",
            "own_lock_id": 1,
            "locks": (LockHold(lock_id=1),),
        }
    )


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        pytest.param({"sasl.password": "a-wrong-password"}, "Authentication failed", id="login"),
        pytest.param({"ssl.ca.location": "/none.pem"}, "ssl.ca.location failed", id="no such file"),
    ],
)
def test_a_service_that_is_not_let_in_says_so_soon_and_shows_no_secret(
    kafka: SecureKafka, deployment: Deployment, client: dict[str, str], sentence: str
) -> None:
    child = deployment.run("coordinator", "refused", kafka.login("coordinator") | client)

    assert exit_code(child) == 2
    shown = child.log.read_text()
    assert sentence in shown.splitlines()[-1]
    assert "Traceback" not in shown
    assert "a-wrong-password" not in shown
    assert password("coordinator") not in shown


def test_a_service_without_the_right_to_its_topic_stops_and_says_which(
    kafka: SecureKafka, deployment: Deployment
) -> None:
    child = deployment.run("coordinator", "stranger", kafka.login("cleaner"))

    assert exit_code(child) in (1, 2)
    [error] = [line for line in child.log.read_text().splitlines() if line.startswith("tidegate: ")]
    assert "authorization failed" in error


@pytest.mark.usefixtures("deployment")
def test_a_service_that_may_not_say_its_outcomes_stops(kafka: SecureKafka) -> None:
    bus = KafkaBus({**kafka.login("upstream-writers"), "bootstrap.servers": kafka.servers})

    with pytest.raises(StopService, match=r"secure\.outcomes.*authorization failed"):
        bus.send([Message(f"{PREFIX}.outcomes", b"k", b"v")])
