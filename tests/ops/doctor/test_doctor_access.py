"""What the doctor tells a service's own principal on a broker with access rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.secure_kafka import SecureKafka, secure_kafka
from support.waiting import wait_for
from tidegate.errors import ConfigError, TransientError
from tidegate.ops import topics
from tidegate.ops.acls import Acl, acls
from tidegate.ops.doctor import Finding, examine
from tidegate.ops.topics import connect
from tidegate.service.settings import Settings
from tidegate.service.topics import describe_topics

pytestmark = [pytest.mark.kafka, pytest.mark.full]
RIGHTS = acls("lake")
DEPLOYMENT = {"prefix": "lake", "partitions": 1}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure_kafka(tmp_path_factory.mktemp("doctor")) as kafka:
        declared = Settings.model_validate({"topics": DEPLOYMENT}).topics
        admin = {**kafka.admin, "bootstrap.servers": kafka.servers}
        topics.create_topics(admin, declared)
        kafka.allow(acl for acl in RIGHTS if acl.role == "coordinator")
        kafka.allow(acl for acl in RIGHTS if acl.role == "cleaner" and acl.operation != "write")
        kafka.allow([Acl("stranger", "read", "topic", "elsewhere", principals=("User:stranger",))])
        wait_for("the last right", lambda: in_force(kafka, "stranger", "elsewhere"))
        yield kafka


def in_force(kafka: SecureKafka, role: str, topic: str) -> bool:
    """Whether a right has reached the broker, and with it all that were given before."""
    try:
        login = {**kafka.login(role), "bootstrap.servers": kafka.servers}
        describe_topics(connect(login), [topic], 2)
    except (ConfigError, TransientError):
        return False
    return True


@pytest.fixture(autouse=True)
def no_other_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def look(kafka: SecureKafka, login: dict[str, str], service: str) -> dict[str, Finding]:
    settings = Settings.model_validate(
        {"kafka": {**login, "bootstrap.servers": kafka.servers}, "topics": DEPLOYMENT}
    )
    return {finding.check: finding for finding in examine(settings, [service])}


def test_a_principal_with_every_right_is_well(kafka: SecureKafka) -> None:
    found = look(kafka, kafka.login("coordinator"), "coordinator")

    assert (found["broker"].state, found["access coordinator"].state) == ("ok", "ok")
    assert found["offsets coordinator"].state == "ok"


def test_the_topics_of_others_that_it_may_not_see_are_a_warning(kafka: SecureKafka) -> None:
    found = look(kafka, kafka.login("cleaner"), "cleaner")

    assert found["topics"].state == "warn"
    assert found["topics"].seen.startswith("unknown: topic lake.commits: ")
    # it may see the topic that it reads, so its offsets' retention is judged
    assert found["offset retention"].state != "fail"


def test_a_principal_without_a_right_fails_and_the_right_is_named(kafka: SecureKafka) -> None:
    found = look(kafka, kafka.login("cleaner"), "cleaner")["access cleaner"]

    assert (found.state, found.seen) == (
        "fail",
        "this principal may not "
        + ", ".join(
            f"{operation} topic lake.{topic}"
            for topic in ("outcomes", "dead-letters")
            for operation in ("write", "describe_configs")
        ),
    )
    assert found.advice.endswith("tidegate topics acls")


def test_a_principal_without_any_right_fails_in_topics_and_group(kafka: SecureKafka) -> None:
    found = look(kafka, kafka.login("stranger"), "cleaner")["access cleaner"]

    assert found.state == "fail"
    for right in ("read topic lake.tasks", "read group lake.cleaner"):
        assert right in found.seen


def test_a_login_that_is_refused_is_reported_as_the_reason_and_without_the_password(
    kafka: SecureKafka,
) -> None:
    login = {**kafka.login("coordinator"), "sasl.password": "not-the-password"}

    found = look(kafka, login, "coordinator")

    assert found["broker"].state == "fail"
    assert "Authentication failed" in found["broker"].seen
    assert "not-the-password" not in str(found)
    assert found["topics"].seen == "no broker"
