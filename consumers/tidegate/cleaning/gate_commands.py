"""The command that the reader gate derives from a vacuum. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tidegate.cleaning.gate_state import Vacuum
from tidegate.errors import PermanentError
from tidegate.events import CleaningReleased, VacuumFinished
from tidegate.events.assembled import assemble
from tidegate.events.codec import encode

GATE: Final = "reader-gate"
MAX_COMMAND_BYTES: Final = 900_000
"""A broker's default limit is 1 MiB, for a command with its headers."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4


def command(
    table: str, vacuum_id: str, vacuum: Vacuum, at: datetime, *, after_expiry: bool = False
) -> CleaningReleased:
    """Derived from the vacuum alone, but for the time: its id does not depend on who came last."""
    return CleaningReleased.model_validate(_fields(table, vacuum_id, vacuum, at, after_expiry))


def command_of_event(
    table: str, vacuum_id: str, vacuum: Vacuum, at: datetime, *, after_expiry: bool = False
) -> CleaningReleased:
    """The same of a vacuum whose fields were checked in this process, as those of an event."""
    fields = _fields(table, vacuum_id, vacuum, at, after_expiry)
    fields["event_id"] = CleaningReleased.id_after(vacuum_id)
    return assemble(CleaningReleased, fields)


def _fields(
    table: str,
    vacuum_id: str,
    vacuum: Vacuum,
    at: datetime,
    after_expiry: bool,  # noqa: FBT001 - named above
) -> dict[str, Any]:
    location, kind, partition, directories, least, most, valid, own_transaction = vacuum
    return {
        "event_id": "",
        "table": table,
        "location": location,
        "occurred_at": at,
        "source": GATE,
        "caused_by": vacuum_id,
        "kind": kind,
        "partition": partition,
        "directories": directories,
        "min_write_id": least,
        "max_write_id": most,
        "valid_write_ids": valid,
        "own_transaction_id": own_transaction,
        "after_expiry": after_expiry,
    }


def require_publishable(event: VacuumFinished) -> None:
    """Refuse a vacuum at once whose command no topic would take: it would wait for ever.

    Raises:
        PermanentError: the command would be too large.
    """
    characters = len(event.valid_write_ids) + sum(map(len, event.directories))
    if characters * _MOST_BYTES_OF_A_CHARACTER <= MAX_COMMAND_BYTES:
        return
    size = len(encode(command(event.table, event.event_id, Vacuum.of(event), event.occurred_at)))
    if size > MAX_COMMAND_BYTES:
        raise PermanentError(
            f"the command to clean after this vacuum would have {size} bytes; at most"
            f" {MAX_COMMAND_BYTES} can be published"
        )
