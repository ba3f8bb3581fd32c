"""The topics that a deployment declares, what a broker has of them, and the difference."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate.errors.commands import command_line
from tidegate.events.topics import ALL_TOPICS, UNCLEAN, Topic
from tidegate.service.settings import TopicSettings

log = logging.getLogger(__name__)
MIN_IN_SYNC: Final = "min.insync.replicas"
_REPLICAS_FOR_TWO_IN_SYNC: Final = 3
_AT_LEAST: Final = frozenset({MIN_IN_SYNC, "max.message.bytes"})
_HIDES_A_LOSS: Final = (
    "a replica without all confirmed records may become the leader, and their loss is not noticed; "
)
_SEPARATED: Final = (
    "a table's events and its state would be on different partitions; set [topics] partitions to"
    " the number that all topics have, or delete this one while it is empty and run:"
    f" {command_line('topics create')}"
)
WAIT_SECONDS: Final = 20.0
_GRACE: Final = 1.0
"""Added to the request's time-out: the client's own error says more than ours."""
_HARMFUL_IF_OTHER: Final = ("cleanup.policy", "message.timestamp.type")
_HARMFUL_BELOW: Final = ("retention.ms", "max.message.bytes")
_UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class DeclaredTopic:
    """The declaration of a topic in one deployment."""

    topic: Topic
    name: str
    partitions: int
    replication: int

    def settings(self) -> Mapping[str, str]:
        """The broker's settings of the topic, in the deployment.

        With three replicas or more, a write is confirmed by two of them at least: one broker may
        then be lost without losing a confirmed event. With fewer, that would stop every write while
        one broker is away.
        """
        if self.replication < _REPLICAS_FOR_TWO_IN_SYNC:
            return self.topic.settings()
        return {**self.topic.settings(), MIN_IN_SYNC: "2"}

    def as_json(self) -> dict[str, object]:
        """Everything about it, for scripts. Times are in milliseconds."""
        return {
            "topic": self.name,
            "purpose": self.topic.purpose,
            "partitions": self.partitions,
            "replication": self.replication,
            "settings": dict(self.settings()),
            "events": [event.__name__ for event in self.topic.events],
            "written_by": ", ".join(self.topic.written_by),
            "read_by": ", ".join(self.topic.read_by),
        }


def deployment(settings: TopicSettings) -> tuple[DeclaredTopic, ...]:
    """Every topic of a deployment."""
    return tuple(
        DeclaredTopic(topic, topic.name(settings.prefix), settings.partitions, settings.replication)
        for topic in ALL_TOPICS
    )


@dataclass(frozen=True, slots=True)
class ActualTopic:
    """A topic as the broker has it. `settings` is None if this principal may not see them.

    `replication` is the smallest of its partitions'.
    """

    partitions: int
    replication: int
    settings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """One difference between a topic and its declaration, and how to repair it.

    `found` is None if the topic does not exist, or its settings can't be seen.
    """

    topic: str
    what: str
    declared: str
    found: str | None
    remedy: str

    @classmethod
    def lines(cls, found: Iterable[TopicDifference]) -> Iterator[str]:
        """The differences for people; those that only differ in the topic are one line."""
        topics: dict[TopicDifference, list[str]] = {}
        for difference in found:
            topics.setdefault(replace(difference, topic=""), []).append(difference.topic)
        for difference, names in topics.items():
            named = ", ".join(names)
            if difference.what == "topic" and names[1:]:
                yield f"{len(names)} topics are missing ({named}): {difference.remedy}"
            else:
                yield str(replace(difference, topic=named))

    def __str__(self) -> str:
        """One line for people."""
        if self.what == "topic":
            return f"topic {self.topic} is missing: {self.remedy}"
        if self.what == "partitions":
            have = f"has {self.found} partitions, but [topics] partitions is {self.declared}"
        elif self.found is None:
            have = f"does not show its {self.what}"
        else:
            have = f"has {self.what} = {self.found}, declared: {self.declared}"
        return f"topic {self.topic} {have}: {self.remedy}"


def differences(
    declared: Iterable[DeclaredTopic], found: Mapping[str, ActualTopic]
) -> tuple[TopicDifference, ...]:
    """Everything that differs, in the order of the declarations.

    Settings that a declaration does not mention are not compared. More replicas than declared are
    accepted, also of those that must be in sync, and larger messages; fewer or smaller ones are
    not.
    """
    by_topic = (_differences(topic, found.get(topic.name)) for topic in declared)
    return tuple(chain.from_iterable(by_topic))


def _differences(declared: DeclaredTopic, found: ActualTopic | None) -> Iterator[TopicDifference]:
    name = declared.name
    if found is None:
        remedy = f"run: {command_line('topics create')}"
        yield TopicDifference(name, "topic", "", None, remedy)
        return
    if found.partitions != declared.partitions:
        counts = (str(declared.partitions), str(found.partitions))
        yield TopicDifference(name, "partitions", *counts, _SEPARATED)
    if found.replication < declared.replication:
        counts = (str(declared.replication), str(found.replication))
        yield TopicDifference(
            name, "replication", *counts, "add replicas: kafka-reassign-partitions"
        )
    if found.settings is None:
        yield TopicDifference(name, "settings", "", None, "grant DescribeConfigs on it")
        return
    for setting, value in declared.settings().items():
        have = found.settings.get(setting, "")
        if setting in _AT_LEAST and have.isdigit() and int(have) >= int(value):
            continue
        if _same(have) != _same(value):
            why = _HIDES_A_LOSS if setting == UNCLEAN else ""
            yield TopicDifference(name, setting, value, have, why + _alter(name, setting, value))


def _same(value: str) -> list[str]:
    """A cleanup policy is a list in any order: `compact,delete` is `delete,compact`."""
    return sorted(part.strip() for part in value.split(","))


def _alter(topic: str, setting: str, value: str) -> str:
    return (
        'kafka-configs --bootstrap-server "$BROKERS" --alter --entity-type topics'
        f" --entity-name {topic} --add-config {setting}={value}"
    )


def describe_topics(
    admin: AdminClient, names: Sequence[str], seconds: float = WAIT_SECONDS
) -> dict[str, ActualTopic]:
    """Describe those of the named topics that exist.

    Raises:
        ConfigError: this principal may not describe one of them.
        TransientError: no broker answers.
    """
    futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=seconds)
    shapes: dict[str, tuple[int, int]] = {}
    for name, future in futures.items():
        try:
            parts = future.result(seconds + _GRACE).partitions
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _fault(name, error.args[0]) from error
        else:
            # a topic that is being created has no partitions yet
            if parts:
                shapes[name] = (len(parts), min(len(part.replicas) for part in parts))
    settings = _settings(admin, list(shapes), seconds)
    return {name: ActualTopic(*shapes[name], setting) for name, setting in settings.items()}


def _settings(
    admin: AdminClient, names: Sequence[str], seconds: float
) -> dict[str, dict[str, str] | None]:
    """The settings of existing topics, None where this principal may not see them.

    Another broker may answer, to which a new topic is not known yet: it is left out.
    """
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    settings: dict[str, dict[str, str] | None] = {}
    for resource, future in admin.describe_configs(resources, request_timeout=seconds).items():
        try:
            entries = future.result(seconds + _GRACE)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                settings[resource.name] = None
            elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _fault(resource.name, error.args[0]) from error
        else:
            settings[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    return settings


def _fault(name: str, error: KafkaError) -> TidegateError:
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigError(f"topic {name}: {error.str()}: grant Describe on it")
    return TransientError(f"no Kafka broker answers: {error.str()}")


def require_declared_topics(
    connection: Mapping[str, str | int | bool], settings: TopicSettings, services: Collection[str]
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
    differing = differences(declared, found)
    for difference in differing:
        if difference.what == "settings":
            log.warning("%s", difference)
    yield from TopicDifference.lines(filter(_is_harmful, differing))
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
    if difference.what in _HARMFUL_BELOW:
        found = int(difference.found or 0)
        return found != _UNLIMITED and found < int(difference.declared)
    return difference.what == "topic" or difference.what in _HARMFUL_IF_OTHER
