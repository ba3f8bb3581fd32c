"""Compare a dead letter with the record at its origin. Pure.

Every service may write dead letters, so a dead letter alone proves nothing. The record at its
origin does: a principal that may write there could have the event carried out anyway.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import FormatError
from tidegate.errors.commands import command_line
from tidegate.events import AbortedCleaningReleased, CleaningReleased, Event, RestoreRequested
from tidegate.ops.dead_letters.dead_letter import DeadLetter
from tidegate.runtime.bus import Record
from tidegate.runtime.input.dead_letters import OFFSETS_HEADER
from tidegate.runtime.input.uncopied import parse_ranges

_DESTRUCTIVE: Final = (RestoreRequested, CleaningReleased, AbortedCleaningReleased)


def difference(dead_letter: DeadLetter, origin: Record | None) -> str:
    """How a dead letter differs from the record at its origin; empty if it does not.

    Key, value, headers and the broker's timestamp are compared. Exceptions are a value that was too
    large for the dead-letters topic, and a timestamp that another tool did not record.

    Args:
        dead_letter: The dead letter.
        origin: The record at its origin; None if it is no longer on its topic.
    """
    if uncopied := _uncopied(dead_letter):
        return uncopied
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
        "key": dead_letter.record.key == origin.key,
        "value": same_value or not dead_letter.has_value,
        "headers": same_headers,
        "timestamp": same_time,
    }
    different = (part for part, same in compared.items() if not same)
    return next((f"{part} and record at its origin differ" for part in different), "")


def _uncopied(dead_letter: DeadLetter) -> str:
    """How to republish the messages that a dead letter stands for; empty if it has one message."""
    try:
        found = dict(dead_letter.record.headers)
    except FormatError:
        return ""
    ranges = parse_ranges((found.get(OFFSETS_HEADER) or b"").decode(errors="replace"))
    if not ranges:
        return ""
    again = command_line(
        "replay events",
        topic=dead_letter.origin.topic,
        partition=dead_letter.origin.number,
        from_offset=ranges[0].start,
        to_offset=ranges[-1].stop,
        execute=True,
    )
    return (
        f"it stands for {sum(map(len, ranges))} messages that were not copied. Publish them again"
        f" before you discard it: {again}"
    )


def is_destructive(event: Event | None) -> bool:
    """Whether carrying out an event deletes data."""
    if isinstance(event, RestoreRequested):
        return not event.plan_only
    return isinstance(event, _DESTRUCTIVE)
