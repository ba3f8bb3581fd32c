"""Which outcome refuses which command."""

from __future__ import annotations

from datetime import datetime

from tidegate.errors import PermanentError
from tidegate.events.aborted import AbortedCleaningReleased
from tidegate.events.base import Command
from tidegate.events.commands import CleaningReleased, RestoreRequested, SavepointRequested
from tidegate.events.holds import HoldRequest
from tidegate.events.outcomes import Answer, CleaningRefused, RestoreRejected, SavepointRejected
from tidegate.events.quarantine import (
    CleaningUndoRefused,
    CleaningUndoRequested,
    QuarantineRemovalRequested,
)
from tidegate.events.reasons import Reason
from tidegate.events.savepoint_removal import SavepointRemovalRejected, SavepointRemovalRequested


def refusal(command: Command, reason: Reason, message: str, said_by: str, at: datetime) -> Answer:
    """The outcome that refuses a command before its executor has looked at it.

    Raises:
        PermanentError: there is no such outcome for this kind of command.
    """
    fields = {"reason": reason, "message": message, "said_by": said_by, "occurred_at": at}
    match command:
        case RestoreRequested():
            return RestoreRejected.about(command, **fields, savepoint=command.savepoint)
        case SavepointRequested():
            return SavepointRejected.about(command, **fields, instant=command.instant)
        case SavepointRemovalRequested():
            return SavepointRemovalRejected.about(command, **fields, instant=command.instant)
        case CleaningUndoRequested():
            about = {"cleaning": command.cleaning, "partition": command.partition}
            return CleaningUndoRefused.about(command, **fields, **about)
        case HoldRequest():
            return CleaningRefused.about(command, **fields)
        case CleaningReleased() | AbortedCleaningReleased() | QuarantineRemovalRequested():
            return CleaningRefused.about(command, **fields, partition=command.partition)
        case _:
            raise PermanentError(f"{reason}: {message}")
