"""The outcome of a released cleaning that is deferred, and its command again. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from tidegate.events import CleaningDeferred, CleaningHoldRequested, CleaningReleased
from tidegate.events.reasons import Reason

AGAIN: Final = timedelta(minutes=1)
"""After so long a cleaning is released again that was not confirmed."""
_REPEATED: Final = (
    *("kind", "partition", "directories", "min_write_id", "max_write_id", "valid_write_ids"),
    *("own_transaction_id", "after_expiry", "last_lock_id", "last_transaction_id"),
)
"""Fields of the command that its deferral repeats."""


def held(hold: CleaningHoldRequested) -> str:
    """A sentence with the holder of a table and the reason."""
    return f"{hold.requested_by} holds {hold.table}: {hold.reason}"


def deferred(
    command: CleaningReleased, hold: CleaningHoldRequested, at: datetime
) -> CleaningDeferred:
    """A person holds the table."""
    why = {"hold": hold.event_id, "held_by": hold.requested_by}
    return _deferred(command, at, why)


def not_confirmed(
    command: CleaningReleased, reason: Reason, message: str, at: datetime
) -> CleaningDeferred:
    """The second source contradicts the command for now, or is away; `message` says how."""
    again = AGAIN // timedelta(milliseconds=1)
    why = {"reason": reason, "message": message, "retry_after_ms": again}
    return _deferred(command, at, why)


def _deferred(command: CleaningReleased, at: datetime, why: dict[str, Any]) -> CleaningDeferred:
    """The outcome from which the reader gate can make the command again."""
    repeated = {name: getattr(command, name) for name in _REPEATED}
    return CleaningDeferred.about(
        command, occurred_at=at, source="cleaner", vacuum=command.caused_by, **repeated, **why
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
