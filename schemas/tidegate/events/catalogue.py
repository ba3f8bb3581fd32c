"""Every event by name; an event that is not listed here can't be published or read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidegate.events.aborted import AbortedCleaningReleased, WritesAborted
from tidegate.events.alarms import (
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.approvals import (
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreAwaitingApproval,
)
from tidegate.events.audit import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.base import Event
from tidegate.events.commands import CleaningReleased, RestoreRequested, SavepointRequested
from tidegate.events.facts import CommitCompleted, CommitCondemned, LockReleased, VacuumFinished
from tidegate.events.holds import (
    CleaningDeferred,
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRemoved,
    CleaningHoldRequested,
)
from tidegate.events.outcomes import (
    CleaningProgressed,
    CleaningRefused,
    CleaningStarted,
    CommitFlagged,
    DirectoriesCleaned,
    RestoreCompleted,
    RestoreFailed,
    RestorePlanned,
    RestoreProgressed,
    RestoreRejected,
    RestoreStarted,
    SavepointCreated,
    SavepointRejected,
    VacuumFlagged,
)
from tidegate.events.quarantine import (
    CleaningUndone,
    CleaningUndoPlanned,
    CleaningUndoRefused,
    CleaningUndoRequested,
    QuarantineRemovalRequested,
    QuarantineRemoved,
)
from tidegate.events.savepoint_removal import (
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
)
from tidegate.events.tasks import TaskEnded, TaskIssued

COMMANDS: Final[tuple[type[Event], ...]] = (
    SavepointRequested,
    SavepointRemovalRequested,
    RestoreRequested,
    RestoreApproved,
)
REQUESTS: Final[tuple[type[Event], ...]] = (
    CleaningUndoRequested,
    CleaningHoldRequested,
    CleaningHoldRemovalRequested,
)
OUTCOMES: Final[tuple[type[Event], ...]] = (
    SavepointCreated,
    SavepointRejected,
    SavepointRemoved,
    SavepointRemovalRejected,
    RestorePlanned,
    RestoreAwaitingApproval,
    RestoreApprovalRejected,
    RestoreStarted,
    RestoreProgressed,
    RestoreCompleted,
    RestoreRejected,
    RestoreFailed,
    CleaningStarted,
    CleaningProgressed,
    DirectoriesCleaned,
    CleaningRefused,
    CleaningDeferred,
    CleaningHeld,
    CleaningHoldRemoved,
    CleaningUndoPlanned,
    CleaningUndone,
    CleaningUndoRefused,
    QuarantineRemoved,
    CommitFlagged,
    VacuumFlagged,
    VacuumOverdue,
    VacuumOverdueResolved,
    UnknownTableReleased,
    UnknownTableResolved,
    DeadLetterRedriven,
    DeadLetterDiscarded,
    TaskEnded,
)
CARRIED: Final[tuple[type[Event], ...]] = (
    CleaningReleased,
    AbortedCleaningReleased,
    QuarantineRemovalRequested,
)
"""Commands of the coordinator that only tasks carry."""
TASKS: Final[tuple[type[Event], ...]] = (TaskIssued, *CARRIED)
FACTS: Final[tuple[type[Event], ...]] = (
    CommitCompleted,
    CommitCondemned,
    VacuumFinished,
    WritesAborted,
    LockReleased,
)

EVENT_TYPES: Final[Mapping[str, type[Event]]] = MappingProxyType(
    {kind.__name__: kind for kind in (*FACTS, *COMMANDS, *REQUESTS, *TASKS, *OUTCOMES)}
)
