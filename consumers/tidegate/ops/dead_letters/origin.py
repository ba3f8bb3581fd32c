"""Compare a dead letter with the record that it says it came from. Pure.

Every service may write dead letters, so a dead letter proves nothing. Only the record at its origin
does: who could write there, could have had it carried out anyway.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import FormatError
from tidegate.events import AbortedCleaningReleased, CleaningReleased, Event, RestoreRequested
from tidegate.ops.dead_letters.dead_letter import DeadLetter
from tidegate.runtime.bus import Record

_DESTRUCTIVE: Final = (RestoreRequested, CleaningReleased, AbortedCleaningReleased)


def difference(dead_letter: DeadLetter, origin: Record | None) -> str:
    """Why a dead letter is not the record at its origin; empty if it is.

    Key, value, headers and the broker's timestamp are compared, except a value that was too large
    for the dead letter's topic, and a timestamp that another tool did not write down.

    Args:
        dead_letter: The dead letter.
        origin: The record at its origin; None if that is no longer in its topic.
    """
    if origin is None:
        return "its origin is no longer in the topic"
    if origin.unreadable:
        return f"its origin can't be read: {origin.unreadable}"
    try:
        same_headers = tuple(dead_letter.headers) == tuple(origin.headers)
    except FormatError as error:
        return f"its origin can't be read: {error}"
    same_value = dead_letter.record.value == origin.value
    same_time = dead_letter.origin_timestamp_ms in (None, origin.timestamp_ms)
    compared = {
        "its key is not that": dead_letter.record.key == origin.key,
        "its value is not that": same_value or not dead_letter.has_value,
        "its headers are not those": same_headers,
        "its time is not that": same_time,
    }
    found = (text for text, same in compared.items() if not same)
    return next((f"{text} of the record at its origin" for text in found), "")


def is_destructive(event: Event | None) -> bool:
    """Whether carrying out an event destroys data."""
    if isinstance(event, RestoreRequested):
        return not event.plan_only
    return isinstance(event, _DESTRUCTIVE)
