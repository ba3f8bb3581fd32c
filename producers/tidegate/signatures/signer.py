"""Signs what a process publishes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.events.base import Event
from tidegate.events.message import Message
from tidegate.events.signature import SIGNATURE_HEADER, SIGNED
from tidegate.signatures.keys import SigningKey
from tidegate.signatures.tokens import token

Sign = Callable[[Event, Message], Message]
"""Returns the message of an event with its signature."""


def unsigned(_: Event, message: Message) -> Message:
    """The message as it is: a `Sign` without a key."""
    return message


def _now() -> datetime:
    return datetime.now(UTC)


class Signer:
    """Adds a signature to the messages of `SIGNED` events. Safe to share between threads."""

    def __init__(
        self,
        key: SigningKey,
        cluster: Callable[[], str],
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """Take the key, what returns the id of the Kafka cluster, and a clock (aware times)."""
        self._key, self._cluster, self._clock = key, cluster, clock

    def sign(self, event: Event, message: Message) -> Message:
        """The message with a new signature, if its event is one of `SIGNED`."""
        if not isinstance(event, SIGNED):
            return message
        now = self._clock()
        signature = token(event, message.topic, self._cluster(), self._key, now)
        others = (header for header in message.headers if header[0] != SIGNATURE_HEADER)
        return message._replace(headers=(*others, (SIGNATURE_HEADER, signature)))
