"""Create the topics as declared, and refuse existing topics that differ."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.errors import ConfigError, TransientError
from tidegate.runtime.kafka.errors import is_transient
from tidegate.service.settings import TopicSettings
from tidegate.service.topics import (
    WAIT_SECONDS,
    ActualTopic,
    DeclaredTopic,
    TopicDifference,
    deployment,
    describe_topics,
    differences,
)

_PAUSE: Final = 0.05
Connection = Mapping[str, str | int | bool]


def create_topics(connection: Connection, settings: TopicSettings) -> dict[str, bool]:
    """Create missing topics; return whether each topic was created now, by name.

    Raises:
        ConfigError: a topic exists and is not as declared, or can't be created. A different number
            of partitions is never accepted: it would separate a table's events from its state.
        TransientError: no broker answers.
    """
    admin = connect(connection)
    declared = deployment(settings)
    _refuse(declared, describe_topics(admin, [topic.name for topic in declared]))
    futures = admin.create_topics(
        [_new(topic) for topic in declared],
        operation_timeout=WAIT_SECONDS,
        request_timeout=WAIT_SECONDS,
    )
    created = {name: _created(name, future) for name, future in futures.items()}
    # another process may have created a topic meanwhile, with other settings
    _refuse(declared, _listed(admin, list(created)))
    return created


def check_topics(connection: Connection, settings: TopicSettings) -> tuple[TopicDifference, ...]:
    """Compare the declared topics with the existing ones, without changing any.

    Raises:
        ConfigError: this principal may not describe them.
        TransientError: no broker answers.
    """
    declared = deployment(settings)
    found = describe_topics(connect(connection), [topic.name for topic in declared])
    return differences(declared, found)


def connect(connection: Mapping[str, Any]) -> AdminClient:
    """Create an admin client.

    Raises:
        ConfigError: librdkafka refuses a setting.
    """
    try:
        return AdminClient({**connection, "log_level": 0})
    except KafkaException as error:
        raise ConfigError(f"Kafka: {error.args[0].str()}") from error


def _new(declared: DeclaredTopic) -> NewTopic:
    return NewTopic(
        declared.name,
        num_partitions=declared.partitions,
        replication_factor=declared.replication,
        config=dict(declared.settings()),
    )


def _created(name: str, future: object) -> bool:
    try:
        future.result()  # type: ignore[attr-defined]  # confluent-kafka types it loosely
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        kind = TransientError if is_transient(error.args[0]) else ConfigError
        raise kind(f"topic {name}: {error.args[0].str()}") from error
    return True


def _listed(admin: AdminClient, names: Sequence[str]) -> dict[str, ActualTopic]:
    """Wait until the broker describes all of these topics: new ones take a moment."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = describe_topics(admin, names)
        missing = [name for name in names if name not in found]
        if not missing:
            return found
        if time.monotonic() > deadline:
            raise TransientError(
                f"the broker does not list {', '.join(missing)} after {WAIT_SECONDS:g} s"
            )
        time.sleep(_PAUSE)


def _refuse(declared: Sequence[DeclaredTopic], found: Mapping[str, ActualTopic]) -> None:
    existing = [topic for topic in declared if topic.name in found]
    if wrong := "; ".join(map(str, differences(existing, found))):
        raise ConfigError(wrong)
