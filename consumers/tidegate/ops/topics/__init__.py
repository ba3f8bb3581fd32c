"""The topics of a deployment: declared once, created, and compared with the broker's."""

from __future__ import annotations

from tidegate.ops.topics.creating import check_topics, create_topics
from tidegate.service.topics import (
    ActualTopic,
    DeclaredTopic,
    TopicDifference,
    deployment,
    describe_topics,
    differences,
)

__all__ = [
    "ActualTopic",
    "DeclaredTopic",
    "TopicDifference",
    "check_topics",
    "create_topics",
    "deployment",
    "describe_topics",
    "differences",
]
