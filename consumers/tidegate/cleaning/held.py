"""The outcome of a cleaning that is deferred by a hold. Pure."""

from __future__ import annotations

from datetime import datetime

from tidegate.events import CleaningDeferred, CleaningHoldRequested, CleaningReleased


def held(hold: CleaningHoldRequested) -> str:
    """A sentence with the holder of a table and the reason."""
    return f"{hold.requested_by} holds {hold.table}: {hold.reason}"


def deferred(
    command: CleaningReleased, hold: CleaningHoldRequested, at: datetime
) -> CleaningDeferred:
    """The outcome from which the reader gate can make the command again."""
    return CleaningDeferred.about(
        command,
        occurred_at=at,
        source="cleaner",
        hold=hold.event_id,
        held_by=hold.requested_by,
        vacuum=command.caused_by,
        kind=command.kind,
        partition=command.partition,
        directories=command.directories,
        min_write_id=command.min_write_id,
        max_write_id=command.max_write_id,
        valid_write_ids=command.valid_write_ids,
        own_transaction_id=command.own_transaction_id,
        after_expiry=command.after_expiry,
    )


def released_again(event: CleaningDeferred, at: datetime, source: str) -> CleaningReleased:
    """The same command as before, with the same id."""
    return CleaningReleased(
        table=event.table,
        location=event.location,
        caused_by=event.vacuum,
        source=source,
        occurred_at=at,
        kind=event.kind,
        partition=event.partition,
        directories=event.directories,
        min_write_id=event.min_write_id,
        max_write_id=event.max_write_id,
        valid_write_ids=event.valid_write_ids,
        own_transaction_id=event.own_transaction_id,
        after_expiry=event.after_expiry,
    )
