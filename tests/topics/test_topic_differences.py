"""Declared topics against found ones, without a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.events.topics import LOCKS, changelog
from tidegate.settings import TopicSettings
from tidegate.topics import Declared, Difference, Found, deployment, differences

DAY_MS = 24 * 60 * 60 * 1000
WANTED = Declared(LOCKS, "lake.locks", partitions=6, replication=2)
MEMORY = Declared(changelog("gate"), "lake.gate.changelog", partitions=6, replication=2)
AS_DECLARED = Found(
    partitions=6,
    replication=2,
    settings={
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
        "retention.ms": str(30 * DAY_MS),
        "segment.bytes": "1048576",
    },
)


def with_setting(name: str, value: str) -> Found:
    return replace(AS_DECLARED, settings={**(AS_DECLARED.settings or {}), name: value})


def test_a_topic_as_declared_does_not_differ() -> None:
    assert differences([WANTED], {"lake.locks": AS_DECLARED}) == ()


def test_what_is_not_declared_is_the_brokers_own_affair() -> None:
    assert differences([WANTED], {"lake.locks": with_setting("segment.bytes", "7")}) == ()


def test_more_replicas_than_declared_are_no_difference() -> None:
    assert differences([WANTED], {"lake.locks": replace(AS_DECLARED, replication=3)}) == ()


def test_a_list_of_policies_has_no_order() -> None:
    both = {**changelog("gate").settings(), "cleanup.policy": "delete, compact"}
    memory = replace(AS_DECLARED, settings=both)

    [found] = differences([MEMORY], {"lake.gate.changelog": memory})
    assert (found.what, found.declared, found.found) == (
        "cleanup.policy",
        "compact",
        "delete, compact",
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(
            replace(AS_DECLARED, partitions=3),
            "topic lake.locks has 3 partitions, the settings say 6: a table's events and its state"
            " would lie apart; set [topics] partitions to what all topics have, or delete this one"
            " while nothing is on it and run: tidegate topics create",
            id="partitions",
        ),
        pytest.param(
            replace(AS_DECLARED, replication=1),
            "topic lake.locks has replication = 1, declared is 2:"
            " add replicas: kafka-reassign-partitions",
            id="replication",
        ),
        pytest.param(
            with_setting("retention.ms", "60000"),
            "topic lake.locks has retention.ms = 60000, declared is 2592000000: kafka-configs"
            " --alter --entity-type topics --entity-name lake.locks"
            " --add-config retention.ms=2592000000",
            id="retention",
        ),
        pytest.param(
            with_setting("cleanup.policy", "compact"),
            "topic lake.locks has cleanup.policy = compact, declared is delete: kafka-configs"
            " --alter --entity-type topics --entity-name lake.locks"
            " --add-config cleanup.policy=delete",
            id="compaction",
        ),
        pytest.param(
            with_setting("message.timestamp.type", "CreateTime"),
            "topic lake.locks has message.timestamp.type = CreateTime, declared is LogAppendTime:"
            " kafka-configs --alter --entity-type topics --entity-name lake.locks"
            " --add-config message.timestamp.type=LogAppendTime",
            id="timestamps",
        ),
        pytest.param(
            replace(AS_DECLARED, settings=None),
            "topic lake.locks does not show its settings: allow DescribeConfigs on it",
            id="settings that may not be seen",
        ),
    ],
)
def test_each_difference_is_one_line_that_says_what_to_do(found: Found, told: str) -> None:
    assert [str(each) for each in differences([WANTED], {"lake.locks": found})] == [told]


def test_a_missing_topic_is_a_difference() -> None:
    wanted = Difference("lake.locks", "topic", "", None, "run: tidegate topics create")

    assert differences([WANTED], {}) == (wanted,)
    assert str(wanted) == "topic lake.locks is missing: run: tidegate topics create"


def test_all_that_differs_is_told_in_the_order_of_the_declarations() -> None:
    odd = Found(1, 1, {})

    found = differences([MEMORY, WANTED], {"lake.locks": odd})

    assert [(each.topic, each.what) for each in found] == [
        ("lake.gate.changelog", "topic"),
        ("lake.locks", "partitions"),
        ("lake.locks", "replication"),
        ("lake.locks", "message.timestamp.type"),
        ("lake.locks", "cleanup.policy"),
        ("lake.locks", "retention.ms"),
    ]


def test_a_deployment_has_the_shared_topics_and_a_changelog_for_each_decider() -> None:
    settings = TopicSettings(prefix="lake", partitions=3, replication=2)

    declared = deployment(settings, ["gate"])

    assert [each.name for each in declared] == [
        "lake.commits",
        "lake.vacuums",
        "lake.locks",
        "lake.commands",
        "lake.outcomes",
        "lake.dead-letters",
        "lake.gate.changelog",
    ]
    assert {(each.partitions, each.replication) for each in declared} == {(3, 2)}
