"""Make the topics as they are declared, and refuse what differs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.errors import ConfigError, TransientError
from tidegate.events.topics import TOPICS, Topic, changelog
from tidegate.settings import TopicSettings

_WAIT: Final = 20.0
_PAUSE: Final = 0.05


def declared(deciders: Sequence[str]) -> list[Topic]:
    """Every topic of a deployment: the shared ones and a changelog for each decider."""
    return [*TOPICS, *(changelog(name) for name in deciders)]


def create_topics(
    connection: Mapping[str, str | int | bool], settings: TopicSettings, deciders: Sequence[str]
) -> dict[str, bool]:
    """Create what is missing; say for each topic whether it was created now.

    Raises:
        ConfigError: a topic exists with another number of partitions, or can't be created. A
            different number is never accepted: a table's events and its state would lie apart.
        TransientError: no broker answers.
    """
    try:
        admin = AdminClient({**connection, "log_level": 0})
    except KafkaException as error:
        raise ConfigError(f"Kafka: {error.args[0].str()}") from error
    present = {name: count for name, count in _partitions(admin).items() if count}
    new = [
        NewTopic(
            topic.name(settings.prefix),
            num_partitions=settings.partitions,
            replication_factor=settings.replication,
            config=dict(topic.settings()),
        )
        for topic in declared(deciders)
    ]
    _check_partitions(present, settings, [topic.topic for topic in new])
    futures = admin.create_topics(new, operation_timeout=_WAIT, request_timeout=_WAIT)
    created = {name: _created(name, future) for name, future in futures.items()}
    _check_partitions(_listed(admin, list(created)), settings, list(created))
    return created


def _created(name: str, future: object) -> bool:
    try:
        future.result()  # type: ignore[attr-defined]  # confluent-kafka types it loosely
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise ConfigError(f"topic {name}: {error.args[0].str()}") from error
    return True


def _listed(admin: AdminClient, names: Sequence[str]) -> dict[str, int]:
    """The partitions of all topics, once these are among them: a broker lists a new one late."""
    deadline = time.monotonic() + _WAIT
    while True:
        present = {name: count for name, count in _partitions(admin).items() if count}
        missing = [name for name in names if not present.get(name)]
        if not missing:
            return present
        if time.monotonic() > deadline:
            raise TransientError(f"the broker does not list {', '.join(missing)} yet")
        time.sleep(_PAUSE)


def _partitions(admin: AdminClient) -> dict[str, int]:
    try:
        found = admin.list_topics(timeout=_WAIT).topics
    except KafkaException as error:
        raise TransientError(f"no Kafka broker answers: {error.args[0].str()}") from error
    return {name: len(topic.partitions) for name, topic in found.items()}


def _check_partitions(
    present: Mapping[str, int], settings: TopicSettings, names: Sequence[str]
) -> None:
    for name in names:
        if (count := present.get(name, settings.partitions)) != settings.partitions:
            raise ConfigError(
                f"topic {name} has {count} partitions, the settings say {settings.partitions}:"
                " all topics of a deployment have the same number"
            )
