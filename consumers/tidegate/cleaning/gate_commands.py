"""The command that the reader gate derives from a vacuum. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from tidegate.cleaning.gate_state import HeldLock, Vacuum
from tidegate.errors import PermanentError
from tidegate.events import CleaningReleased, VacuumFinished
from tidegate.events.assembled import assemble
from tidegate.events.codec import encode

GATE: Final = "reader-gate"
MAX_COMMAND_BYTES: Final = 900_000
"""A broker's default limit is 1 MiB, for a command with its headers."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4


class WaitedFor(NamedTuple):
    """What a vacuum waited for: the highest lock and transaction, and whether one expired."""

    last_lock_id: int | None = None
    last_transaction_id: int | None = None
    after_expiry: bool = False

    @classmethod
    def of(
        cls, locks: Iterable[HeldLock], transactions: Iterable[int], *, after_expiry: bool = False
    ) -> Self:
        """Of all holds of a vacuum, ended ones too."""
        last_lock = max((lock.lock_id for lock in locks), default=None)
        return cls(last_lock, max(transactions, default=None), after_expiry)


NOTHING: Final = WaitedFor()


def command(
    table: str, vacuum_id: str, vacuum: Vacuum, at: datetime, waited_for: WaitedFor = NOTHING
) -> CleaningReleased:
    """Derived from the vacuum alone, but for the time: its id does not depend on who came last."""
    return CleaningReleased.model_validate(_fields(table, vacuum_id, vacuum, at, waited_for))


def command_of_event(
    table: str, vacuum_id: str, vacuum: Vacuum, at: datetime, waited_for: WaitedFor = NOTHING
) -> CleaningReleased:
    """The same of a vacuum whose fields were checked in this process, as those of an event."""
    fields = _fields(table, vacuum_id, vacuum, at, waited_for)
    fields["event_id"] = CleaningReleased.id_after(vacuum_id)
    return assemble(CleaningReleased, fields)


def _fields(
    table: str, vacuum_id: str, vacuum: Vacuum, at: datetime, waited_for: WaitedFor
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
        "after_expiry": waited_for.after_expiry,
        "last_lock_id": waited_for.last_lock_id,
        "last_transaction_id": waited_for.last_transaction_id,
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
