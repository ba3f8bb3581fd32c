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
from tidegate.runtime.input.dead_letters import OFFSETS_HEADER
from tidegate.runtime.input.uncopied import parse_ranges

_DESTRUCTIVE: Final = (RestoreRequested, CleaningReleased, AbortedCleaningReleased)


def difference(dead_letter: DeadLetter, origin: Record | None) -> str:
    """Why a dead letter is not the record at its origin; empty if it is.

    Key, value, headers and the broker's timestamp are compared, except a value that was too large
    for the dead letter's topic, and a timestamp that another tool did not write down.

    Args:
        dead_letter: The dead letter.
        origin: The record at its origin; None if that is no longer in its topic.
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
        "its key is not that": dead_letter.record.key == origin.key,
        "its value is not that": same_value or not dead_letter.has_value,
        "its headers are not those": same_headers,
        "its time is not that": same_time,
    }
    found = (text for text, same in compared.items() if not same)
    return next((f"{text} of the record at its origin" for text in found), "")


def _uncopied(dead_letter: DeadLetter) -> str:
    """How to publish the messages again that it stands for; empty if it is one message."""
    try:
        found = dict(dead_letter.record.headers)
    except FormatError:
        return ""
    ranges = parse_ranges((found.get(OFFSETS_HEADER) or b"").decode(errors="replace"))
    if not ranges:
        return ""
    return (
        f"it stands for {sum(map(len, ranges))} messages that were not copied. Publish what is"
        f" there again with: tidegate replay events {dead_letter.origin.topic} --partition"
        f" {dead_letter.origin.number} --from-offset {ranges[0].start} --to-offset"
        f" {ranges[-1].stop}. Then discard it"
    )


def is_destructive(event: Event | None) -> bool:
    """Whether carrying out an event destroys data."""
    if isinstance(event, RestoreRequested):
        return not event.plan_only
    return isinstance(event, _DESTRUCTIVE)
