"""Messages that can't be worked off: set aside whole, with why and from where.

Three families of headers, so that the tools people have understand them: Kafka Connect's, Kafka
Streams' (KIP-1034) and Spring's.
"""

from __future__ import annotations

import traceback
from collections import deque
from dataclasses import dataclass, field

from tidegate.errors import DeadLetterFlood
from tidegate.events import derived_id
from tidegate.publisher import Message
from tidegate.runtime.bus import Record

ID_HEADER = "tidegate-dead-letter-id"


def dead_letter(record: Record, group: str, error: BaseException, topic: str) -> Message:
    """Make the dead letter of a record: its own key, value and headers, and the reason.

    The id is derived from group, topic, partition and offset: a letter that is written twice after
    a crash is recognised. It lies on the partition of the same number.
    """
    where, offset = record.partition, str(record.offset)
    number, stamp = str(where.number), str(record.timestamp_ms)
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    trace = "".join(traceback.format_exception(error, limit=20))
    reasons = {
        ID_HEADER: derived_id("dead-letter", group, where.topic, number, offset),
        "__connect.errors.topic": where.topic,
        "__connect.errors.partition": number,
        "__connect.errors.offset": offset,
        "__connect.errors.connector.name": group,
        "__connect.errors.exception.class.name": name,
        "__connect.errors.exception.message": str(error),
        "__connect.errors.exception.stacktrace": trace,
        "__streams.errors.topic": where.topic,
        "__streams.errors.partition": number,
        "__streams.errors.offset": offset,
        "__streams.errors.exception": name,
        "__streams.errors.message": str(error),
        "__streams.errors.stacktrace": trace,
        "x-original-topic": where.topic,
        "x-original-partition": number,
        "x-original-offset": offset,
        "x-original-timestamp": stamp,
        "x-exception-fqcn": name,
        "x-exception-message": str(error),
    }
    added = tuple((header, text.encode()) for header, text in reasons.items())
    return Message(topic, record.key, record.value, (*record.headers, *added), where.number)


@dataclass(slots=True)
class DeadLetterLimit:
    """Stops a service whose messages nearly all fail: bad code must not drain a topic.

    Of the last `window` messages at most `most` may become dead letters.
    """

    window: int = 100
    most: int = 50
    _recent: deque[bool] = field(default_factory=deque[bool])

    def worked(self) -> None:
        """Count a message that was worked off."""
        self._note(dead=False)

    def failed(self) -> None:
        """Count a dead letter, before it is written.

        Raises:
            DeadLetterFlood: it would be one too many; the message stays unacknowledged.
        """
        self._note(dead=True)
        if sum(self._recent) > self.most:
            raise DeadLetterFlood(
                f"{sum(self._recent)} of the last {len(self._recent)} messages failed:"
                " the code or its settings are at fault, not the messages"
            )

    def _note(self, *, dead: bool) -> None:
        self._recent.append(dead)
        if len(self._recent) > self.window:
            self._recent.popleft()
