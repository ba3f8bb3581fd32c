"""The topics of a deployment: declared once, created, and compared with what the broker has."""

from __future__ import annotations

from tidegate.topics.cluster import look
from tidegate.topics.creating import check_topics, create_topics
from tidegate.topics.declaration import Declared, deployment
from tidegate.topics.difference import Difference, Found, differences

__all__ = [
    "Declared",
    "Difference",
    "Found",
    "check_topics",
    "create_topics",
    "deployment",
    "differences",
    "look",
]
