"""The services by name, known without loading them.

Operators' commands ask only for this, so that they need neither Spark nor a file system's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidegate.events import (
    AbortedCleaningReleased,
    CleaningReleased,
    CleaningUndoRequested,
    Command,
    QuarantineRemovalRequested,
    RestoreRequested,
    SavepointRemovalRequested,
    SavepointRequested,
    SavepointsCheckRequested,
)
from tidegate.events.topics import SERVICES, TOPICS, Role, Topic

COORDINATOR: Final = str(Role.COORDINATOR)
NAMES: Final = tuple(map(str, SERVICES))
EXECUTORS: Final = tuple(name for name in NAMES if name != COORDINATOR)
EXECUTED: Final[Mapping[str, tuple[type[Command], ...]]] = MappingProxyType(
    {
        "savepoint-writer": (
            SavepointRequested,
            SavepointRemovalRequested,
            SavepointsCheckRequested,
        ),
        "restorer": (RestoreRequested,),
        "cleaner": (
            CleaningReleased,
            CleaningUndoRequested,
            QuarantineRemovalRequested,
            AbortedCleaningReleased,
        ),
    }
)
"""The commands that each executor carries out; a test compares it with the executors."""


def inputs_of(service: str) -> list[Topic]:
    """The topics that a service reads as a member of its group, by name."""
    found = [topic for topic in TOPICS if service in topic.read_by]
    return sorted(found, key=lambda topic: topic.suffix)
