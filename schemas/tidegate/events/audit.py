"""What people decided about dead letters: part of the audit trail, as the outcomes are."""

from __future__ import annotations

from typing import Final

from tidegate.events.base import Count, Outcome, Text

UNKNOWN_TABLE: Final = "unknown.unknown.unknown"
"""The table of a dead letter whose key is no table's identity; its location is then `unknown`."""


class DeadLetterSettled(Outcome, frozen=True):
    """What both answers to a dead letter tell of it. `caused_by` is the dead letter's own id."""

    service: Text
    origin_topic: Text
    origin_partition: Count
    origin_offset: Count
    error: str
    requested_by: Text


class DeadLetterRedriven(DeadLetterSettled, frozen=True):
    """The message was published again on its topic, as it was, to be worked off once more."""


class DeadLetterDiscarded(DeadLetterSettled, frozen=True):
    """A person decided that the message is not needed, and says why. It stays on its topic."""

    reason: Text
