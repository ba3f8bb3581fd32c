"""The events of Tidegate: facts from outside, commands, outcomes."""

from __future__ import annotations

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

__all__ = [
    "Answer",
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
    "SavepointRejected",
    "SavepointRequested",
    "TableFormat",
    "TableType",
    "VacuumFinished",
    "VacuumFlag",
    "VacuumFlagged",
    "VacuumKind",
    "Value",
    "derived_id",
    "table_identity",
]
