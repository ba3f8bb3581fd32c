"""`tidegate topics` on a real broker: described, created, compared; what differs is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from typer.testing import CliRunner, Result

from support.json_lines import json_lines
from support.kafka import create_topic
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.errors import ConfigError, TransientError
from tidegate.ops.topics import connect, create_topics
from tidegate.service.settings import TopicSettings
from tidegate.service.topics import ActualTopic, describe_topics

Topics = Callable[..., Result]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, topic_prefix: str) -> Topics:
    """`tidegate topics` of a deployment with two partitions."""
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    file = tmp_path / "tidegate.toml"

    def call(servers: str, *arguments: str, prefix: str = topic_prefix) -> Result:
        file.write_text(
            f'[kafka]\n"bootstrap.servers" = "{servers}"\n'
            f'[topics]\nprefix = "{prefix}"\npartitions = 2\n'
        )
        return CliRunner().invoke(app, ["topics", *arguments, "-c", str(file)])

    return call


def alter(servers: str, topic: str, name: str, value: str) -> None:
    set_it = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[set_it])
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(60)
    # the broker shows it a moment later
    asked = ConfigResource(ResourceType.TOPIC, topic)
    while admin.describe_configs([asked])[asked].result(60)[name].value != value:
        time.sleep(0.05)


def test_topics_are_described_without_a_broker(topics: Topics, topic_prefix: str) -> None:
    rows = {line["topic"]: line for line in json_lines(topics("", "describe", "--json").stdout)}

    assert len(rows) == 8
    assert rows[f"{topic_prefix}.locks"] == {
        "topic": f"{topic_prefix}.locks",
        "purpose": "locks and transactions that ended",
        "partitions": 2,
        "replication": 1,
        "settings": {
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "false",
            "cleanup.policy": "delete",
            "retention.ms": "2592000000",
        },
        "events": ["LockReleased"],
        "written_by": "upstream-writers, bridges",
        "read_by": "coordinator, bridges, people",
    }


def test_the_table_names_every_topic_its_writers_its_readers_and_its_events(topics: Topics) -> None:
    rows = topics("", "describe", prefix="lake").stdout

    for word in (
        "lake.coordinator.changelog",
        "partitions: 2",
        "retention: 30 days",
        "retention: forever",
        "compact",
        "LogAppendTime",
        "upstream-writers",
        "coordinator",
        "VacuumFinished",
    ):
        assert word in rows


def test_without_a_broker_nothing_is_called_missing() -> None:
    with pytest.raises(TransientError, match="no Kafka broker answers"):
        describe_topics(connect({"bootstrap.servers": "127.0.0.1:9"}), ["lake.locks"], 1)


@pytest.mark.kafka
def test_topics_that_were_just_created_are_as_declared(
    topics: Topics, bootstrap_servers: str
) -> None:
    assert topics(bootstrap_servers, "create").exit_code == 0

    answer = topics(bootstrap_servers, "check")
    assert (answer.exit_code, answer.stdout) == (0, "the topics are as declared\n")
    assert topics(bootstrap_servers, "check", "--json").stdout == ""


@pytest.mark.kafka
def test_every_difference_is_a_line_and_the_exit_code_says_so(
    topics: Topics, bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(
        bootstrap_servers,
        f"{topic_prefix}.locks",
        3,
        message_timestamp_type="LogAppendTime",
        retention_ms="2592000000",
    )
    create_topic(
        bootstrap_servers,
        f"{topic_prefix}.vacuums",
        2,
        message_timestamp_type="CreateTime",
        retention_ms="60000",
        cleanup_policy="compact",
    )
    made = {f"{topic_prefix}.locks", f"{topic_prefix}.vacuums"}
    admin = connect({"bootstrap.servers": bootstrap_servers})
    # a broker lists a new topic late
    wait_for("the topics", lambda: describe_topics(admin, sorted(made)).keys() == made)

    answer = topics(bootstrap_servers, "check", "--json")

    assert answer.exit_code == 1
    rows = {(line["topic"], line["what"], line["found"]) for line in json_lines(answer.stdout)}
    missing = ["commits", "requests", "tasks", "outcomes", "dead-letters"]
    missing += ["coordinator.changelog"]
    assert rows == {
        *((f"{topic_prefix}.{name}", "topic", None) for name in missing),
        (f"{topic_prefix}.locks", "partitions", "3"),
        (f"{topic_prefix}.vacuums", "message.timestamp.type", "CreateTime"),
        (f"{topic_prefix}.vacuums", "retention.ms", "60000"),
        (f"{topic_prefix}.vacuums", "cleanup.policy", "compact"),
    }
    lines = topics(bootstrap_servers, "check").stdout.splitlines()
    assert len(lines) == len(rows)
    assert f"topic {topic_prefix}.commits is missing: run: tidegate topics create" in lines


@pytest.mark.kafka
@pytest.mark.parametrize(
    "difference",
    [
        ("coordinator.changelog", "cleanup.policy", "delete"),
        ("outcomes", "retention.ms", "1000"),
        ("commits", "message.timestamp.type", "CreateTime"),
    ],
    ids=lambda difference: difference[1],
)
def test_creating_refuses_a_topic_that_differs_and_shows_how(
    topics: Topics, bootstrap_servers: str, topic_prefix: str, difference: tuple[str, str, str]
) -> None:
    suffix, setting, value = difference
    topics(bootstrap_servers, "create")
    name = f"{topic_prefix}.{suffix}"
    alter(bootstrap_servers, name, setting, value)

    answer = topics(bootstrap_servers, "create")

    assert isinstance(answer.exception, ConfigError)
    assert f"topic {name} has {setting} = {value}, declared: " in str(answer.exception)
    assert answer.stdout == ""


@pytest.mark.kafka
def test_a_topic_that_the_broker_did_not_list_before_is_compared_after(
    monkeypatch: pytest.MonkeyPatch, bootstrap_servers: str, topic_prefix: str
) -> None:
    create_topic(bootstrap_servers, f"{topic_prefix}.locks", 3)
    late: list[dict[str, ActualTopic]] = [{}]

    def listed_late(admin: AdminClient, names: Sequence[str]) -> dict[str, ActualTopic]:
        return late.pop() if late else describe_topics(admin, names)

    monkeypatch.setattr("tidegate.ops.topics.describe_topics", listed_late)

    with pytest.raises(
        ConfigError, match=r"locks has 3 partitions, but \[topics\] partitions is 2"
    ):
        create_topics(
            {"bootstrap.servers": bootstrap_servers},
            TopicSettings(prefix=topic_prefix, partitions=2),
        )
