"""Ask a cluster what topics it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import ConfigError, TidegateError, TransientError
from tidegate.topics.difference import Found

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

WAIT_SECONDS: Final = 20.0
_GRACE: Final = 1.0
"""So much longer than the request: its own fault says more than a time-out does."""


def look(
    admin: AdminClient, names: Sequence[str], seconds: float = WAIT_SECONDS
) -> dict[str, Found]:
    """Those of the named topics that are there.

    Raises:
        ConfigError: this principal may not look at one of them.
        TransientError: no broker answers.
    """
    asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=seconds)
    shapes: dict[str, tuple[int, int]] = {}
    for name, future in asked.items():
        try:
            parts = future.result(seconds + _GRACE).partitions
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _fault(name, error.args[0]) from error
        else:
            # a topic that is just being made has no partitions yet
            if parts:
                shapes[name] = (len(parts), min(len(each.replicas) for each in parts))
    settings = _settings(admin, list(shapes), seconds)
    return {name: Found(*shapes[name], told) for name, told in settings.items()}


def _settings(
    admin: AdminClient, names: Sequence[str], seconds: float
) -> dict[str, dict[str, str] | None]:
    """The settings of topics that are there, None where they may not be seen.

    Another broker may answer, which has not heard of a new topic yet: it is left out.
    """
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    told: dict[str, dict[str, str] | None] = {}
    for resource, future in admin.describe_configs(resources, request_timeout=seconds).items():
        try:
            entries = future.result(seconds + _GRACE)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                told[resource.name] = None
            elif code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _fault(resource.name, error.args[0]) from error
        else:
            told[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    return told


def _fault(name: str, error: KafkaError) -> TidegateError:
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigError(f"topic {name}: {error.str()}: allow Describe on it")
    return TransientError(f"no Kafka broker answers: {error.str()}")
