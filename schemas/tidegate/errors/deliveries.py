"""What became of each message of a call that publishes."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """Where the broker stored a message, and the id of the event in it."""

    topic: str
    partition: int
    offset: int
    event_id: str = ""


class NotStored(NamedTuple):
    """A message that was refused: the broker does not have it."""

    reason: str
    event_id: str = ""


class Unconfirmed(NamedTuple):
    """A message of which no confirmation came: the broker may have it. Publish it again."""

    reason: str
    event_id: str = ""


Delivery = Receipt | NotStored | Unconfirmed
