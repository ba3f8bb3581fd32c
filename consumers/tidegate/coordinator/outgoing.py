"""The coordinator's messages: serialized, signed, and small enough for their topic.

What a topic would not accept is refused with its event, before anything of that is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from tidegate.errors import MessageTooLargeError, TransientError
from tidegate.events import Command, Event, Outcome, TaskIssued
from tidegate.events.topics import OUTCOME_TOPIC, TASK_TOPIC
from tidegate.events.wire import Wire, original_of
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Record
from tidegate.runtime.retry import RetryPolicy
from tidegate.signatures.tokens import Sign, unsigned

ALWAYS_ACCEPTED_BYTES: Final = 50_000
"""Messages up to this size are not compared with their topic's limit: every topic accepts them."""
_OVERHEAD_BYTES: Final = 200
"""An upper bound of what a message needs in its batch besides key, value and headers."""
_TASK_BYTES: Final = 4_000
_NAME_COPIES: Final = 7
"""An upper bound of what a task needs besides the messages that it carries: so many bytes, and for
each byte of its location and table so many more. It has them in its value and headers, and in its
signature as JSON in base64."""


class Outgoing:
    """Makes messages of events. Their topic's limit and a schema registry are asked with retries.

    Its methods raise MessageTooLargeError if the message exceeds the limit of its topic.
    """

    def __init__(self, bus: Bus, prefix: str, wire: Wire, sign: Sign, retries: RetryPolicy) -> None:
        """Take how messages are encoded and signed, and for which topics."""
        self._bus, self._wire, self._sign, self._retries = bus, wire, sign, retries
        self._outcomes, self._tasks = OUTCOME_TOPIC.name(prefix), TASK_TOPIC.name(prefix)

    def outcome(self, event: Outcome) -> Message:
        """The message of an outcome."""
        message = self._serialized(event, self._outcomes)
        self._require_accepted(message)
        return message

    def task(self, task: TaskIssued) -> Message:
        """The message of a task; what it carries was found small enough before."""
        return self._serialized(task, self._tasks)

    def command(self, command: Command, at: datetime) -> tuple[Message, datetime]:
        """A command of the coordinator, signed, for a task to carry, and its append time."""
        message = self._sign(command, self._serialized(command, self._tasks))
        self._require_accepted(message, command)
        # not before it was signed, which is by this machine's clock
        return message, max(at, datetime.now(UTC))

    def request(self, request: Command, record: Record, at: datetime) -> Message:
        """A request as it was published, for a task to carry."""
        message = Message(record.partition.topic, record.key, record.value, record.headers)
        # what no task can carry is refused now: later, the end of the task before it would fail
        original_of(message, at)
        # the task of a restore may carry an approval, too
        self._require_accepted(message._replace(topic=self._tasks), request, messages=2)
        return message

    def signed(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Sign at each publication: a message may have waited for longer than a signature lasts."""
        if self._sign is unsigned:
            return messages
        events = (self._wire.deserialize(it.key, it.value, it.headers) for it in messages)
        return [*map(self._sign, events, messages)]

    def _serialized(self, event: Event, topic: str) -> Message:
        try:
            return self._wire.serialize(event, topic)
        except TransientError:  # only then are retries prepared: this runs for every message
            return self._retries.call(lambda: self._wire.serialize(event, topic))

    def _require_accepted(
        self, message: Message, carried: Command | None = None, messages: int = 1
    ) -> None:
        """Refuse what exceeds the topic's limit: a message, or the task that carries a command.

        The task has room for `messages` of this size.
        """
        headers = sum(map(len, filter(None, chain.from_iterable(message.headers))))
        body = len(message.key or b"") + len(message.value or b"")
        size = messages * (body + headers + _OVERHEAD_BYTES)
        if carried is not None:
            names = f"{carried.location}{carried.table}".encode()
            size += _TASK_BYTES + _NAME_COPIES * len(names)
        if size <= ALWAYS_ACCEPTED_BYTES:  # most are
            return
        limit = self._retries.call(lambda: self._bus.max_message_bytes(message.topic))
        if size > limit:
            raise MessageTooLargeError(
                f"Message size too large: {size} bytes for {message.topic}, which accepts {limit}"
            )
