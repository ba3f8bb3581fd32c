"""Describe the topics of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate.service.topics.difference import ActualTopic

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

WAIT_SECONDS: Final = 20.0
_GRACE: Final = 1.0
"""Added to the request's time-out: the client's own error says more than ours."""


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
