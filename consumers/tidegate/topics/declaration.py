"""What a deployment's topics are to be: the declarations under its prefix, with its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.events.topics import TOPICS, Topic, changelog
from tidegate.settings import TopicSettings


@dataclass(frozen=True, slots=True)
class Declared:
    """A topic as a deployment wants it."""

    topic: Topic
    name: str
    partitions: int
    replication: int

    def as_json(self) -> dict[str, object]:
        """Everything about it, for scripts. Times are in milliseconds."""
        return {
            "topic": self.name,
            "purpose": self.topic.purpose,
            "partitions": self.partitions,
            "replication": self.replication,
            "settings": dict(self.topic.settings()),
            "events": [each.__name__ for each in self.topic.events],
            "written_by": self.topic.written_by,
            "read_by": self.topic.read_by,
        }


def deployment(settings: TopicSettings, deciders: Sequence[str]) -> tuple[Declared, ...]:
    """Every topic of a deployment: the shared ones and a changelog for each decider."""
    topics = (*TOPICS, *(changelog(name) for name in deciders))
    return tuple(
        Declared(topic, topic.name(settings.prefix), settings.partitions, settings.replication)
        for topic in topics
    )
