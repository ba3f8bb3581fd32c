"""The events of Tidegate: facts from outside, commands, outcomes."""

from __future__ import annotations

from tidegate.events.alarms import (
    LackedHold,
    UnknownTableReleased,
    UnknownTableResolved,
    VacuumOverdue,
    VacuumOverdueResolved,
)
from tidegate.events.audit import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.base import Command, Event, Fact, Outcome, Request, Value
from tidegate.events.commands import CleaningReleased, RestoreRequested, SavepointRequested
from tidegate.events.facts import (
    CommitCompleted,
    LockHold,
    LockReleased,
    LockType,
    ReleaseReason,
    TableFormat,
    TableType,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.identity import derived_id, table_identity
from tidegate.events.outcomes import (
    Answer,
    CleaningProgressed,
    CleaningRefused,
    CleaningStarted,
    DirectoriesCleaned,
    InstantRef,
    RestoreCompleted,
    RestoreFailed,
    RestorePlan,
    RestorePlanned,
    RestoreProgressed,
    RestoreRejected,
    RestoreStarted,
    SavepointCreated,
    SavepointRejected,
    VacuumFlag,
    VacuumFlagged,
)
from tidegate.events.savepoint_marks import KeptSavepoint, SavepointMark
from tidegate.events.savepoint_removal import (
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRemoved,
)

__all__ = [
    "Answer",
    "CleaningProgressed",
    "CleaningRefused",
    "CleaningReleased",
    "CleaningStarted",
    "Command",
    "CommitCompleted",
    "DeadLetterDiscarded",
    "DeadLetterRedriven",
    "DirectoriesCleaned",
    "Event",
    "Fact",
    "InstantRef",
    "KeptSavepoint",
    "LackedHold",
    "LockHold",
    "LockReleased",
    "LockType",
    "Outcome",
    "ReleaseReason",
    "Request",
    "RestoreCompleted",
    "RestoreFailed",
    "RestorePlan",
    "RestorePlanned",
    "RestoreProgressed",
    "RestoreRejected",
    "RestoreRequested",
    "RestoreStarted",
    "SavepointCreated",
    "SavepointMark",
    "SavepointRejected",
    "SavepointRemovalRejected",
    "SavepointRemovalRequested",
    "SavepointRemoved",
    "SavepointRequested",
    "TableFormat",
    "TableType",
    "UnknownTableReleased",
    "UnknownTableResolved",
    "VacuumFinished",
    "VacuumFlag",
    "VacuumFlagged",
    "VacuumKind",
    "VacuumOverdue",
    "VacuumOverdueResolved",
    "Value",
    "derived_id",
    "table_identity",
]
