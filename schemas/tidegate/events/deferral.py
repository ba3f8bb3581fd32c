"""The outcome of a released cleaning that is deferred, and its command again. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tidegate.events import CleaningDeferred, CleaningReleased
from tidegate.events.reasons import Reason

AGAIN: Final = timedelta(minutes=1)
"""After so long a cleaning is released again that was not confirmed."""
_REPEATED: Final = (
    *("kind", "partition", "directories", "min_write_id", "max_write_id", "valid_write_ids"),
    *("own_transaction_id", "after_expiry", "last_lock_id", "last_transaction_id"),
)
"""Fields of the command that its deferral repeats."""


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
