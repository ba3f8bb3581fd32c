"""What becomes of dead letters: sent back, or discarded; each is told among the outcomes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from tidegate.deadletters.letter import DeadLetter
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.wire import Wire
from tidegate.publisher import Message

REDRIVEN_FROM: Final = "tidegate-redriven-from"
SAID_BY: Final = "tidegate-cli"
_NOWHERE: Final = "unknown"


def redriven(letters: Sequence[DeadLetter]) -> list[Message]:
    """The messages to publish: each original once, however many services set it aside.

    Key, value and headers are as they were, and one header names the dead letter. The key decides
    about the partition, as when it was first published; without a key it is the original one.
    """
    origins = {(each.origin, each.origin_offset): each for each in reversed(letters)}
    first = [each for each in letters if origins[each.origin, each.origin_offset] is each]
    return [_message(each) for each in first]


def _message(letter: DeadLetter) -> Message:
    key, kept = letter.record.key, [h for h in letter.headers if h[0] != REDRIVEN_FROM]
    headers = (*kept, (REDRIVEN_FROM, letter.letter_id.encode()))
    number = letter.origin.number if key is None else None
    return Message(letter.origin.topic, key, letter.record.value, headers, number)


def told_redriven(letter: DeadLetter, by: str, at: datetime, wire: Wire) -> DeadLetterRedriven:
    """The audit event of a letter that was sent back."""
    return DeadLetterRedriven.model_validate(_told(letter, by, at, wire))


def told_discarded(
    letter: DeadLetter, by: str, at: datetime, wire: Wire, reason: str
) -> DeadLetterDiscarded:
    """The audit event of a letter that is not needed."""
    return DeadLetterDiscarded.model_validate({**_told(letter, by, at, wire), "reason": reason})


def _told(letter: DeadLetter, by: str, at: datetime, wire: Wire) -> dict[str, Any]:
    event = letter.event(wire)
    return {
        "table": letter.table,
        "location": event.location if event else _NOWHERE,
        "occurred_at": at,
        "said_by": SAID_BY,
        "caused_by": letter.letter_id,
        "service": letter.service,
        "origin_topic": letter.origin.topic or _NOWHERE,
        "origin_partition": letter.origin.number,
        "origin_offset": letter.origin_offset,
        "error": letter.error,
        "requested_by": by,
    }
