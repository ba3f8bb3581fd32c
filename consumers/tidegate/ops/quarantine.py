"""Find a cleaning by its table, or by the id of its vacuum, command or outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.errors import ConfigError, FormatError
from tidegate.events import (
    CleaningMode,
    CleaningStarted,
    CleaningUndone,
    Event,
    QuarantineRemoved,
    derived_id,
    table_identity,
)
from tidegate.ops.event_log import EventLog
from tidegate.ops.event_log.logged import EventFilter
from tidegate.service.settings import Settings

_KINDS = frozenset({"CleaningStarted", "DirectoriesCleaned", "CleaningUndone", "QuarantineRemoved"})


@dataclass(frozen=True, slots=True)
class QuarantinedCleaning:
    """A cleaning that moved directories into quarantine."""

    cleaning: str
    """The id of its CleaningReleased."""
    table: str
    location: str
    partition: str | None


def find_cleaning(settings: Settings, subject: str) -> QuarantinedCleaning:
    """The newest cleaning of a table that can be undone, or the cleaning with an id.

    Args:
        settings: The deployment.
        subject: A table; or the id of the vacuum, the command or an outcome. The first characters
            of an id suffice, if they are unique.

    Raises:
        ConfigError: there is no such cleaning, or several ids begin with the subject.
        TransientError: no broker answers.
    """
    try:
        table: str | None = table_identity(subject)
    except FormatError:
        table = None
    wanted = EventFilter(() if table is None else (table,), _KINDS)
    read = EventLog.of(settings).read(wanted=wanted)
    events = [logged.event for logged in read if logged is not None and logged.event is not None]
    return newest_of(events, table) if table is not None else by_id(events, subject)


def newest_of(events: Iterable[Event], table: str) -> QuarantinedCleaning:
    """The newest cleaning in quarantine, from a table's outcomes, which come oldest first.

    Raises:
        ConfigError: the table has nothing in quarantine.
    """
    found: dict[str, QuarantinedCleaning] = {}
    for event in events:
        if (cleaning := _quarantined(event)) is not None:
            found.pop(cleaning.cleaning, None)
            found[cleaning.cleaning] = cleaning
        elif isinstance(event, CleaningUndone | QuarantineRemoved):
            found.pop(event.cleaning, None)
    if not found:
        raise ConfigError(f"{table} has nothing in quarantine, according to the outcomes")
    return list(found.values())[-1]


def by_id(events: Iterable[Event], event_id: str) -> QuarantinedCleaning:
    """The cleaning that an id belongs to.

    Raises:
        ConfigError: there is no such cleaning, or several ids begin with this one.
    """
    from_vacuum = derived_id("CleaningReleased", event_id)
    found: dict[str, QuarantinedCleaning] = {}
    for event in events:
        cleaning = _quarantined(event)
        if cleaning is None:
            continue
        ids = (event.event_id, cleaning.cleaning)
        if any(id_.startswith(event_id) for id_ in ids) or cleaning.cleaning == from_vacuum:
            found[cleaning.cleaning] = cleaning
    if not found:
        raise ConfigError(f"no quarantined cleaning has the id {event_id}")
    if len(found) > 1:
        raise ConfigError(f"several ids begin with {event_id}: {', '.join(found)}")
    return found.popitem()[1]


def _quarantined(event: Event) -> QuarantinedCleaning | None:
    """The cleaning of an outcome about moving directories into quarantine; else None."""
    mode = getattr(event, "mode", None)
    if mode != CleaningMode.QUARANTINE or event.caused_by is None:
        return None
    if not isinstance(event, CleaningStarted) and not getattr(event, "directories", ()):
        return None
    partition: str | None = getattr(event, "partition", None)
    return QuarantinedCleaning(event.caused_by, event.table, event.location, partition)
