"""Which outcome refuses which command."""

from __future__ import annotations

from datetime import datetime

from tidegate.errors import PermanentError
from tidegate.events.aborted import AbortedCleaningReleased
from tidegate.events.approvals import (
    RestoreApprovalRejected,
    RestoreApproved,
    Withdrawal,
    WithdrawalRefused,
)
from tidegate.events.base import Command
from tidegate.events.commands import (
    CleaningReleased,
    RestoreRequested,
    SavepointRequested,
    SavepointsCheckRequested,
)
from tidegate.events.holds import HoldRequest
from tidegate.events.outcomes import Answer, CleaningRefused, RestoreRejected, SavepointRejected
from tidegate.events.quarantine import (
    CleaningUndoRefused,
    CleaningUndoRequested,
    QuarantineRemovalRequested,
)
from tidegate.events.reasons import Reason
from tidegate.events.savepoint_removal import SavepointRemovalRejected, SavepointRemovalRequested


def refusal(command: Command, reason: Reason, message: str, source: str, at: datetime) -> Answer:
    """The outcome that refuses a command before its executor has read the table.

    Raises:
        PermanentError: there is no such outcome for this kind of command.
    """
    fields = {"reason": reason, "message": message, "source": source, "occurred_at": at}
    kind, more = _refusal_of(command, reason, message)
    return kind.about(command, **fields, **more)


def _refusal_of(
    command: Command, reason: Reason, message: str
) -> tuple[type[Answer], dict[str, str | None]]:
    """The kind of outcome, and its fields about the command."""
    found: tuple[type[Answer], dict[str, str | None]]
    match command:
        case RestoreRequested():
            found = RestoreRejected, {"savepoint": command.savepoint}
        case RestoreApproved():
            found = RestoreApprovalRejected, {"request": command.request}
        case Withdrawal():
            found = WithdrawalRefused, {"request": command.request}
        case SavepointRequested():
            found = SavepointRejected, {"instant": command.instant}
        case SavepointsCheckRequested():
            found = SavepointRejected, {"instant": None}
        case SavepointRemovalRequested():
            found = SavepointRemovalRejected, {"instant": command.instant}
        case CleaningUndoRequested():
            about = {"cleaning": command.cleaning, "partition": command.partition}
            found = CleaningUndoRefused, about
        case HoldRequest():
            found = CleaningRefused, {}
        case CleaningReleased() | AbortedCleaningReleased() | QuarantineRemovalRequested():
            found = CleaningRefused, {"partition": command.partition}
        case _:
            raise PermanentError(f"{reason}: {message}")
    return found
