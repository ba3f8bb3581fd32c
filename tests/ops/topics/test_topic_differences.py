"""Declared topics against found ones, without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.events.topics import CHANGELOG, LOCKS
from tidegate.service.settings import TopicSettings
from tidegate.service.topics import (
    ActualTopic,
    DeclaredTopic,
    TopicDifference,
    deployment,
    differences,
)

DAY_MS = 24 * 60 * 60 * 1000
WANTED = DeclaredTopic(LOCKS, "lake.locks", partitions=6, replication=2)
MEMORY = DeclaredTopic(CHANGELOG, "lake.gate.changelog", partitions=6, replication=2)
AS_DECLARED = ActualTopic(
    partitions=6,
    replication=2,
    settings={
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
        "retention.ms": str(30 * DAY_MS),
        "unclean.leader.election.enable": "false",
        "segment.bytes": "1048576",
    },
)


def with_setting(name: str, value: str) -> ActualTopic:
    return replace(AS_DECLARED, settings={**(AS_DECLARED.settings or {}), name: value})


def test_a_topic_as_declared_does_not_differ() -> None:
    assert differences([WANTED], {"lake.locks": AS_DECLARED}) == ()


def test_what_is_not_declared_is_the_brokers_own_affair() -> None:
    assert differences([WANTED], {"lake.locks": with_setting("segment.bytes", "7")}) == ()


def test_more_replicas_than_declared_make_no_difference() -> None:
    assert differences([WANTED], {"lake.locks": replace(AS_DECLARED, replication=3)}) == ()


REPLICATED = replace(WANTED, replication=3)


def in_sync(replicas: str) -> dict[str, ActualTopic]:
    found = replace(with_setting("min.insync.replicas", replicas), replication=3)
    return {"lake.locks": found}


def test_with_three_replicas_a_write_is_confirmed_by_two_of_them_at_least() -> None:
    assert REPLICATED.settings()["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in WANTED.settings()
    assert differences([REPLICATED], in_sync("2")) == ()
    assert differences([REPLICATED], in_sync("3")) == ()
    [found] = differences([REPLICATED], in_sync("1"))
    assert str(found) == (
        "topic lake.locks has min.insync.replicas = 1, declared: 2:"
        ' kafka-configs --bootstrap-server "$BROKERS" --alter'
        " --entity-type topics --entity-name lake.locks --add-config min.insync.replicas=2"
    )


@pytest.mark.parametrize("declared", deployment(TopicSettings()), ids=lambda topic: topic.name)
def test_a_replica_without_confirmed_records_may_lead_no_topic(declared: DeclaredTopic) -> None:
    settings = {**declared.settings(), "unclean.leader.election.enable": "true"}

    [found] = differences(
        [declared], {declared.name: ActualTopic(declared.partitions, 1, settings)}
    )
    assert str(found) == (
        f"topic {declared.name} has unclean.leader.election.enable = true, declared: false: a"
        " replica without all confirmed records may become the leader, and their loss is not"
        ' noticed; kafka-configs --bootstrap-server "$BROKERS" --alter --entity-type topics'
        " --entity-name"
        f" {declared.name} --add-config unclean.leader.election.enable=false"
    )


def test_a_topic_that_accepts_larger_messages_than_declared_makes_no_difference() -> None:
    larger = {**CHANGELOG.settings(), "max.message.bytes": str(16 * 2**20)}
    smaller = larger | {"max.message.bytes": "1048588"}

    assert differences([MEMORY], {MEMORY.name: replace(AS_DECLARED, settings=larger)}) == ()
    [found] = differences([MEMORY], {MEMORY.name: replace(AS_DECLARED, settings=smaller)})
    assert (found.what, found.declared) == ("max.message.bytes", str(2 * 2**20))


def test_a_list_of_policies_has_no_order() -> None:
    both = {**CHANGELOG.settings(), "cleanup.policy": "delete, compact"}
    memory = replace(AS_DECLARED, settings=both)

    [found] = differences([MEMORY], {"lake.gate.changelog": memory})
    assert (found.what, found.declared, found.found) == (
        "cleanup.policy",
        "compact",
        "delete, compact",
    )


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        pytest.param(
            replace(AS_DECLARED, partitions=3),
            "topic lake.locks has 3 partitions, but [topics] partitions is 6: a table's events"
            " and its state would be on different partitions; set [topics] partitions to the number"
            " that all topics have, or delete this one while it is empty and run: tidegate topics"
            " create",
            id="partitions",
        ),
        pytest.param(
            replace(AS_DECLARED, replication=1),
            "topic lake.locks has replication = 1, declared: 2:"
            " add replicas: kafka-reassign-partitions",
            id="replication",
        ),
        pytest.param(
            with_setting("retention.ms", "60000"),
            "topic lake.locks has retention.ms = 60000, declared: 2592000000: kafka-configs"
            ' --bootstrap-server "$BROKERS" --alter --entity-type topics --entity-name lake.locks'
            " --add-config retention.ms=2592000000",
            id="retention",
        ),
        pytest.param(
            with_setting("cleanup.policy", "compact"),
            "topic lake.locks has cleanup.policy = compact, declared: delete: kafka-configs"
            ' --bootstrap-server "$BROKERS" --alter --entity-type topics --entity-name lake.locks'
            " --add-config cleanup.policy=delete",
            id="compaction",
        ),
        pytest.param(
            with_setting("message.timestamp.type", "CreateTime"),
            "topic lake.locks has message.timestamp.type = CreateTime, declared: LogAppendTime:"
            ' kafka-configs --bootstrap-server "$BROKERS" --alter --entity-type topics'
            " --entity-name lake.locks --add-config message.timestamp.type=LogAppendTime",
            id="timestamps",
        ),
        pytest.param(
            replace(AS_DECLARED, settings=None),
            "topic lake.locks does not show its settings: grant DescribeConfigs on it",
            id="settings that may not be seen",
        ),
    ],
)
def test_each_difference_is_one_line_that_says_what_to_do(found: ActualTopic, shown: str) -> None:
    assert [str(difference) for difference in differences([WANTED], {"lake.locks": found})] == [
        shown
    ]


def test_a_missing_topic_is_a_difference() -> None:
    wanted = TopicDifference("lake.locks", "topic", "", None, "run: tidegate topics create")

    assert differences([WANTED], {}) == (wanted,)
    assert str(wanted) == "topic lake.locks is missing: run: tidegate topics create"


def test_all_that_differs_is_reported_in_the_order_of_the_declarations() -> None:
    odd = ActualTopic(1, 1, {})

    found = differences([MEMORY, WANTED], {"lake.locks": odd})

    assert [(difference.topic, difference.what) for difference in found] == [
        ("lake.gate.changelog", "topic"),
        ("lake.locks", "partitions"),
        ("lake.locks", "replication"),
        ("lake.locks", "message.timestamp.type"),
        ("lake.locks", "unclean.leader.election.enable"),
        ("lake.locks", "cleanup.policy"),
        ("lake.locks", "retention.ms"),
    ]


def test_a_deployment_has_the_declared_topics() -> None:
    settings = TopicSettings(prefix="lake", partitions=3, replication=2)

    declared = deployment(settings)

    assert [topic.name for topic in declared] == [
        "lake.commits",
        "lake.vacuums",
        "lake.locks",
        "lake.requests",
        "lake.tasks",
        "lake.outcomes",
        "lake.dead-letters",
        "lake.coordinator.changelog",
    ]
    assert {(topic.partitions, topic.replication) for topic in declared} == {(3, 2)}
