"""Signs what a process publishes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.events.base import Event
from tidegate.events.message import Message
from tidegate.events.signature import SIGNATURE_HEADER, SIGNED
from tidegate.signatures.keys import SigningKey
from tidegate.signatures.tokens import token

PERSONS_VALIDITY: Final = timedelta(days=1)
"""A person's request is published at once; one that is redriven later is looked at again."""
SERVICES_VALIDITY: Final = timedelta(days=30)
"""As long as commands are kept: a service's command may be redriven that late."""


def _now() -> datetime:
    return datetime.now(UTC)


class Signer:
    """Adds a signature to the messages of `SIGNED` events. Safe to share between threads."""

    def __init__(
        self,
        key: SigningKey,
        valid: timedelta = PERSONS_VALIDITY,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """Take the key, how long a signature may be used, and a clock (aware times)."""
        self._key, self._valid, self._clock = key, valid, clock

    def sign(self, event: Event, message: Message) -> Message:
        """The message, signed if the kind of its event is one of `SIGNED`."""
        if not isinstance(event, SIGNED):
            return message
        now = self._clock()
        signature = token(event, message.topic, self._key, now, now + self._valid)
        return message._replace(headers=(*message.headers, (SIGNATURE_HEADER, signature)))
