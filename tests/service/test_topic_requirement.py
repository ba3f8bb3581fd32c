"""Which differences of a topic from its declaration a service must not work with."""

from __future__ import annotations

import logging

import pytest

from tidegate.events.topics import CHANGELOG, LOCKS, VACUUMS
from tidegate.service.topics import ActualTopic, DeclaredTopic, harmful

LOCKS_DECLARED = DeclaredTopic(LOCKS, "t.locks", partitions=6, replication=3)
VACUUMS_DECLARED = DeclaredTopic(VACUUMS, "t.vacuums", partitions=6, replication=3)
MEMORY = DeclaredTopic(CHANGELOG, "t.gate.changelog", partitions=6, replication=3)
MONTH_MS = str(30 * 24 * 60 * 60 * 1000)


def found(declared: DeclaredTopic, **settings: str) -> ActualTopic:
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    return ActualTopic(12, 1, {**declared.topic.settings(), **changed})


@pytest.mark.parametrize(
    "actual",
    [
        pytest.param(found(LOCKS_DECLARED), id="as declared, with another number of partitions"),
        pytest.param(found(LOCKS_DECLARED, retention_ms="-1"), id="kept for ever"),
        pytest.param(found(LOCKS_DECLARED, retention_ms=MONTH_MS + "0"), id="kept longer"),
    ],
)
def test_a_topic_that_keeps_at_least_what_is_declared_is_accepted(actual: ActualTopic) -> None:
    assert list(harmful([LOCKS_DECLARED], {"t.locks": actual})) == []


@pytest.mark.parametrize(
    ("declared", "setting", "value"),
    [
        (LOCKS_DECLARED, "message.timestamp.type", "CreateTime"),
        (LOCKS_DECLARED, "retention.ms", "3600000"),
        (LOCKS_DECLARED, "cleanup.policy", "compact"),
        (MEMORY, "cleanup.policy", "compact,delete"),
        (MEMORY, "max.message.bytes", "1048588"),
    ],
)
def test_a_topic_that_loses_or_misdates_events_is_refused_with_the_command_that_repairs_it(
    declared: DeclaredTopic, setting: str, value: str
) -> None:
    actual = found(declared, **{setting.replace(".", "_"): value})

    [fault] = harmful([declared], {declared.name: actual})
    assert f"topic {declared.name} has {setting} = {value}, declared: " in fault
    assert (
        'kafka-configs --bootstrap-server "$BROKERS" --alter --entity-type topics'
        f" --entity-name {declared.name}" in fault
    )


def test_topics_with_different_numbers_of_partitions_are_refused() -> None:
    actual = {
        "t.locks": found(LOCKS_DECLARED),
        "t.vacuums": ActualTopic(1, 1, dict(VACUUMS.settings())),
    }

    [fault] = harmful([LOCKS_DECLARED, VACUUMS_DECLARED], actual)
    assert "t.locks: 12, t.vacuums: 1" in fault


def test_a_topic_that_is_missing_is_refused_with_the_command_that_creates_it() -> None:
    assert list(harmful([LOCKS_DECLARED], {})) == [
        "topic t.locks is missing: run: tidegate topics create"
    ]
    assert list(harmful([LOCKS_DECLARED, VACUUMS_DECLARED], {})) == [
        "2 topics are missing (t.locks, t.vacuums): run: tidegate topics create"
    ]


def test_settings_that_may_not_be_seen_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(harmful([LOCKS_DECLARED], {"t.locks": ActualTopic(6, 3, None)})) == []

    assert "topic t.locks does not show its settings" in caplog.text
