"""Which outcome refuses which command, and which cleaning is released again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from tidegate.errors import PermanentError
from tidegate.events.base import Answer, Command, Event
from tidegate.events.cleanings import (
    AbortedCleaningReleased,
    CleaningDeferred,
    CleaningRefused,
    CleaningReleased,
    CleaningUndoRefused,
    CleaningUndoRequested,
    HoldRequest,
    QuarantineRemovalRequested,
)
from tidegate.events.reasons import Reason
from tidegate.events.restores import (
    RestoreApprovalRejected,
    RestoreApproved,
    RestoreRejected,
    RestoreRequested,
    Withdrawal,
    WithdrawalRefused,
)
from tidegate.events.savepoints import (
    SavepointRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRequested,
    SavepointsCheckRequested,
)

AGAIN: Final = timedelta(minutes=1)
"""After so long a cleaning is released again that was not confirmed."""
_REPEATED: Final = (
    CleaningReleased.model_fields.keys() & CleaningDeferred.model_fields.keys()
) - Event.model_fields.keys()
"""Fields of the command that its deferral repeats."""

_OF_DIRECTORIES: Final = (CleaningReleased, AbortedCleaningReleased, QuarantineRemovalRequested)
_REFUSALS: Final[
    Sequence[tuple[type[Command] | tuple[type[Command], ...], type[Answer], Sequence[str]]]
] = (
    (RestoreRequested, RestoreRejected, ("savepoint",)),
    (RestoreApproved, RestoreApprovalRejected, ("request",)),
    (Withdrawal, WithdrawalRefused, ("request",)),
    ((SavepointRequested, SavepointsCheckRequested), SavepointRejected, ("instant",)),
    (SavepointRemovalRequested, SavepointRemovalRejected, ("instant",)),
    (CleaningUndoRequested, CleaningUndoRefused, ("cleaning", "partition")),
    (HoldRequest, CleaningRefused, ()),
    (_OF_DIRECTORIES, CleaningRefused, ("partition",)),
)
"""Of a kind of command, the outcome that refuses it, and the fields that this repeats."""


def not_confirmed(
    command: CleaningReleased, reason: Reason, message: str, at: datetime
) -> CleaningDeferred:
    """The second source contradicts the command for now, or is away; `message` says how."""
    return CleaningDeferred.about(
        command,
        occurred_at=at,
        source="cleaner",
        vacuum=command.caused_by,
        reason=reason,
        message=message,
        retry_after_ms=AGAIN // timedelta(milliseconds=1),
        **{name: getattr(command, name) for name in _REPEATED},
    )


def released_again(event: CleaningDeferred, at: datetime, source: str) -> CleaningReleased:
    """The same command as before, with the same id."""
    return CleaningReleased(
        table=event.table,
        location=event.location,
        caused_by=event.vacuum,
        source=source,
        occurred_at=at,
        **{name: getattr(event, name) for name in _REPEATED},
    )


def refusal(command: Command, reason: Reason, message: str, source: str, at: datetime) -> Answer:
    """The outcome that refuses a command before its executor has read the table.

    Raises:
        PermanentError: there is no such outcome for this kind of command.
    """
    for commands, kind, repeated in _REFUSALS:
        if isinstance(command, commands):
            fields = {name: getattr(command, name, None) for name in repeated}
            about = {"reason": reason, "message": message, "source": source, "occurred_at": at}
            return kind.about(command, **about, **fields)
    raise PermanentError(f"{reason}: {message}")
