"""Checks the topics of a service before it starts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.service.settings import TopicSettings
from tidegate.service.topics.cluster import describe_topics
from tidegate.service.topics.declaration import DeclaredTopic, deployment
from tidegate.service.topics.difference import ActualTopic, TopicDifference, differences

log = logging.getLogger(__name__)
_EXACTLY: Final = ("cleanup.policy", "message.timestamp.type")
_AT_LEAST: Final = ("retention.ms", "max.message.bytes")
_UNLIMITED: Final = -1


def require_declared_topics(
    connection: Mapping[str, str | int | bool],
    settings: TopicSettings,
    services: Collection[str],
) -> None:
    """Refuse topics with settings that harm these services; checks those that they read or write.

    A topic that the broker created by itself has one partition, the writers' own timestamps, and
    the broker's retention. Settings that this principal may not see are not compared.

    Raises:
        ConfigError: a topic is missing, or its settings lose or misdate events. The message has
            the repair of every difference.
        TransientError: no broker answers.
    """
    declared = [topic for topic in deployment(settings) if _is_used(topic, services)]
    if not declared:
        return
    admin = AdminClient({**connection, "log_level": 0, "allow.auto.create.topics": False})
    faults = list(harmful(declared, describe_topics(admin, [topic.name for topic in declared])))
    if faults:
        raise ConfigError("; ".join(faults))


def harmful(declared: Sequence[DeclaredTopic], found: Mapping[str, ActualTopic]) -> Iterator[str]:
    """A sentence for each difference that a service must not work with. Pure."""
    for difference in differences(declared, found):
        if difference.what == "settings":
            log.warning("%s", difference)
        elif difference.what == "topic" or _is_harmful(difference):
            yield str(difference)
    names = [topic.name for topic in declared if topic.name in found]
    counts = {name: found[name].partitions for name in names}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        yield (
            f"these topics must have the same number of partitions: {listed}; a table's events and"
            f" its state would be on different partitions. See: {command_line('topics check')}"
        )


def _is_used(declared: DeclaredTopic, services: Collection[str]) -> bool:
    return any(role in services for role in (*declared.topic.written_by, *declared.topic.read_by))


def _is_harmful(difference: TopicDifference) -> bool:
    if difference.what in _AT_LEAST:
        found = int(difference.found or 0)
        return found != _UNLIMITED and found < int(difference.declared)
    return difference.what in _EXACTLY
