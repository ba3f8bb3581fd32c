"""What people decided about dead letters. These events are part of the audit trail."""

from __future__ import annotations

from typing import Final

from tidegate.events.base import Outcome
from tidegate.events.limits import Count, ErrorText, Text
from tidegate.events.names import Name

UNKNOWN_TABLE: Final = "unknown.unknown.unknown"
"""The table of a dead letter whose key is not a table's identity; its location is `unknown`."""


class DeadLetterResolved(Outcome, frozen=True):
    """The fields that both resolutions share. `caused_by` is the id of the dead letter itself."""

    service: Text
    origin_topic: Text
    origin_partition: Count
    origin_offset: Count
    error: ErrorText
    requested_by: Name


class DeadLetterRedriven(DeadLetterResolved, frozen=True):
    """The message was published again, unchanged, on its original topic."""


class DeadLetterDiscarded(DeadLetterResolved, frozen=True):
    """A person decided, for `reason`, not to process the message. The dead letter stays there."""

    reason: Text
