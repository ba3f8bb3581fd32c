"""The declared topics of a deployment: with its prefix and its number of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegate.events.topics import ALL_TOPICS, Topic
from tidegate.service.settings import TopicSettings

MIN_IN_SYNC: Final = "min.insync.replicas"
_REPLICAS_FOR_TWO_IN_SYNC: Final = 3


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
