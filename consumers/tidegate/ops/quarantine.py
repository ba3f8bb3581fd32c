"""Find a cleaning in quarantine by its table, or by the id of its vacuum or of itself."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.coordinator.quarantines import Quarantine, quarantines
from tidegate.errors import ConfigError, FormatError
from tidegate.events import derived_id, table_identity
from tidegate.ops.waiting import gate_stores
from tidegate.service.settings import Settings


def find_cleaning(settings: Settings, subject: str) -> Quarantine:
    """The newest cleaning of a table that can be undone, or the cleaning with an id.

    Args:
        settings: The deployment.
        subject: A table; or the id of the vacuum, the cleaning or its start. The first characters
            of a cleaning's or a start's id suffice, if they are unique.

    Raises:
        ConfigError: there is no such cleaning, or several ids begin with the subject.
        TransientError: no broker answers.
    """
    try:
        table = table_identity(subject)
    except FormatError:
        table = None
    rows = (row for store in gate_stores(settings, table) for row in quarantines(store))
    there = [row for row in rows if not row.undone]
    return by_id(there, subject) if table is None else newest_of(there, table)


def newest_of(there: Iterable[Quarantine], table: str) -> Quarantine:
    """The newest of a table's quarantines.

    Raises:
        ConfigError: there are none.
    """
    own = [row for row in there if row.table == table]
    if not own:
        raise ConfigError(f"{table} has nothing in quarantine, as far as the coordinator has read")
    # once a removal is requested, `due` is the time of the next request
    return max(own, key=lambda row: (not row.requested, row.due))


def by_id(there: Iterable[Quarantine], event_id: str) -> Quarantine:
    """The cleaning that an id belongs to.

    Raises:
        ConfigError: there is no such cleaning, or several ids begin with this one.
    """
    from_vacuum = derived_id("CleaningReleased", event_id)
    found = [
        row
        for row in there
        if row.cleaning == from_vacuum
        or row.cleaning.startswith(event_id)
        or row.started.startswith(event_id)
    ]
    if not found:
        raise ConfigError(f"no quarantined cleaning has the id {event_id}")
    if len(found) > 1:
        ids = ", ".join(row.cleaning for row in found)
        raise ConfigError(f"several ids begin with {event_id}: {ids}")
    return found[0]
