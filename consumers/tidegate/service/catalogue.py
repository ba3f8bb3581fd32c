"""The services by name with the events that they consume, known without loading the services.

Operators' commands ask only for this, so that they need neither Spark nor a file system's library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tidegate.events import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    CleaningReleased,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoRequested,
    CommitCompleted,
    CommitCondemned,
    Event,
    LockReleased,
    QuarantineRemovalRequested,
    QuarantineRemoved,
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreDeclined,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    RestoreRequested,
    SavepointCreated,
    SavepointRemovalRequested,
    SavepointRequested,
    SavepointsChecked,
    SavepointsCheckRequested,
    TaskEnded,
    VacuumFinished,
    WithdrawalRequested,
    WritesAborted,
)
from tidegate.events.roles import Role
from tidegate.events.topics import TASK_TOPIC, Topic, topic_of

COORDINATOR: Final = str(Role.COORDINATOR)
CONSUMED_EVENTS: Final[Mapping[str, Sequence[type[Event]]]] = MappingProxyType(
    {
        COORDINATOR: (
            VacuumFinished,
            LockReleased,
            WritesAborted,
            CleaningHoldRequested,
            CleaningHoldRemovalRequested,
            CleaningDeferred,
            CleaningStarted,
            CleaningUndone,
            QuarantineRemoved,
            CommitCompleted,
            SavepointCreated,
            SavepointsChecked,
            RestorePlanned,
            RestoreRejected,
            RestoreFailed,
            CommitCondemned,
            RestoreAwaitingApproval,
            CleaningUndoRequested,
            RestoreApproved,
            RestoreRequested,
            SavepointRemovalRequested,
            SavepointRequested,
            RestoreDeclined,
            WithdrawalRequested,
            RestoreApprovalRejected,
            RestoreCompleted,
            TaskEnded,
        ),
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
"""The kinds of events that each service consumes; a test compares it with the services."""
EXECUTORS: Final = ("savepoint-writer", "restorer", "cleaner")


def inputs_of(service: str) -> list[Topic]:
    """The topics that a service reads as a member of its group, by name."""
    if service != COORDINATOR:
        return [TASK_TOPIC]
    found = set(map(topic_of, CONSUMED_EVENTS[service]))
    return sorted(found, key=lambda topic: topic.suffix)
