"""Resolutions of dead letters: redriven or discarded, each with an audit event. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import DeadLetter
from tidegate.publisher import Message
from tidegate.runtime.bus import Record
from tidegate.runtime.input.dead_letters import REDRIVEN_FROM

SOURCE: Final = "tidegate-cli"
_NOWHERE: Final = "unknown"


def redriven_message(dead_letter: DeadLetter, original: Record) -> Message:
    """The original message, with a header that names the dead letter.

    The key determines the partition. A message without a key goes to its original partition.
    """
    others = [header for header in original.headers if header[0] != REDRIVEN_FROM]
    headers = (*others, (REDRIVEN_FROM, dead_letter.dead_letter_id.encode()))
    number = original.partition.number if original.key is None else None
    return Message(original.partition.topic, original.key, original.value, headers, number)


def redriven_event(
    dead_letter: DeadLetter, by: str, at: datetime, wire: Wire
) -> DeadLetterRedriven:
    """The audit event of a redriven dead letter."""
    return DeadLetterRedriven.model_validate(_fields(dead_letter, by, at, wire))


def discarded_event(
    dead_letter: DeadLetter, by: str, at: datetime, wire: Wire, reason: str
) -> DeadLetterDiscarded:
    """The audit event of a discarded dead letter."""
    return DeadLetterDiscarded.model_validate(
        {**_fields(dead_letter, by, at, wire), "reason": reason}
    )


def _fields(dead_letter: DeadLetter, by: str, at: datetime, wire: Wire) -> dict[str, Any]:
    event = dead_letter.event(wire)
    return {
        "table": dead_letter.table,
        "location": event.location if event else _NOWHERE,
        "occurred_at": at,
        "source": SOURCE,
        "caused_by": dead_letter.dead_letter_id,
        "service": dead_letter.service,
        "origin_topic": dead_letter.origin.topic or _NOWHERE,
        "origin_partition": dead_letter.origin.number,
        "origin_offset": dead_letter.origin_offset,
        "error": dead_letter.error,
        "requested_by": by,
    }
