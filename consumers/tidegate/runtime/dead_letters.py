"""Messages that can't be worked off: set aside whole, with why and from where.

Three families of headers, so that the tools people have understand them: Kafka Connect's, Kafka
Streams' (KIP-1034) and Spring's.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import DeadLetterFlood
from tidegate.events import derived_id
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record

ID_HEADER = "tidegate-dead-letter-id"
VALUE_LEFT_OUT = "tidegate-value-left-out"
"""Of a letter whose value its topic did not take: how many bytes it has."""
REASON_MOST: Final = 8000
_WORKED: Final = "."
_FAILED: Final = "x"


def dead_letter(record: Record, group: str, error: BaseException, topic: str) -> Message:
    """Make the dead letter of a record: its own key, value and headers, and the reason.

    The id is derived from group, topic, partition, offset and the broker's time there: a letter
    written twice after a crash is recognised, and one from a topic that was created again is not
    taken for an older one. It lies on the partition of the same number.
    """
    where, offset = record.partition, str(record.offset)
    number, stamp = str(where.number), str(record.timestamp_ms)
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    message = _cut(str(error))
    trace = _cut("".join(traceback.format_exception(error, limit=20)))
    reasons = {
        ID_HEADER: derived_id("dead-letter", group, where.topic, number, offset, stamp),
        "__connect.errors.topic": where.topic,
        "__connect.errors.partition": number,
        "__connect.errors.offset": offset,
        "__connect.errors.connector.name": group,
        "__connect.errors.exception.class.name": name,
        "__connect.errors.exception.message": message,
        "__connect.errors.exception.stacktrace": trace,
        "__streams.errors.topic": where.topic,
        "__streams.errors.partition": number,
        "__streams.errors.offset": offset,
        "__streams.errors.exception": name,
        "__streams.errors.message": message,
        "__streams.errors.stacktrace": trace,
        "x-original-topic": where.topic,
        "x-original-partition": number,
        "x-original-offset": offset,
        "x-original-timestamp": stamp,
        "x-exception-fqcn": name,
        "x-exception-message": message,
    }
    # an error may name a path that is no text
    added = tuple(
        (name, text.encode("utf-8", "backslashreplace")) for name, text in reasons.items()
    )
    return Message(topic, record.key, record.value, (*record.headers, *added), where.number)


def without_value(letter: Message) -> Message:
    """The same letter where its topic takes none so large: the value stays at its origin."""
    size = str(len(letter.value or b"")).encode()
    return letter._replace(value=None, headers=(*letter.headers, (VALUE_LEFT_OUT, size)))


def _cut(text: str) -> str:
    """A reason that people read: faulty input may stand in it at any length, five times over."""
    left = len(text) - REASON_MOST
    return text if left <= 0 else f"{text[:REASON_MOST]}... and {left} characters more"


@dataclass(slots=True)
class DeadLetterLimit:
    """Stops a service whose messages nearly all fail: bad code must not drain a topic.

    Of the last `window` messages of a partition at most `most` may become dead letters. The loop
    keeps that count with the partition's offset (`note`, `recall`): it goes to whoever gets the
    partition next, so that no number of restarts sets more aside. Safe from any thread.
    """

    window: int = 100
    most: int = 50
    _recent: dict[Partition, deque[str]] = field(default_factory=dict[Partition, deque[str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def worked(self, partition: Partition) -> None:
        """Count a message that was worked off, where any failed: it runs for every message."""
        if recent := self._recent.get(partition):
            recent.append(_WORKED)

    def failed(self, partition: Partition, service: str) -> None:
        """Count a dead letter, before it is written.

        Raises:
            DeadLetterFlood: it would be one too many; the message stays unacknowledged.
        """
        recent = self._begin(partition)
        with self._lock:
            seen = [*recent, _FAILED][-self.window :]
            if (failed := seen.count(_FAILED)) > self.most:
                raise DeadLetterFlood(
                    f"{failed} of the last {len(seen)} messages for {service} on"
                    f" {partition.topic}[{partition.number}] failed; from here on none is set aside"
                    f" any more. See why: tidegate dead-letters list --service {service}. Put the"
                    f" code or the settings right and start {service} again. Only if the messages"
                    f" themselves are bad, raise most in [services.{service}.dead_letters]"
                )
            recent.append(_FAILED)

    def note(self, partition: Partition) -> str:
        """The last messages of a partition, a character each: what to keep with its offset."""
        return "".join(self._recent.get(partition, deque()).copy())

    def recall(self, partition: Partition, note: str) -> None:
        """Go on with what was noted of a partition; what is no such note counts as nothing."""
        sound = set(note) <= {_WORKED, _FAILED}
        with self._lock:
            self._recent[partition] = deque(note if sound else "", self.window)

    def _begin(self, partition: Partition) -> deque[str]:
        with self._lock:
            return self._recent.setdefault(partition, deque(maxlen=self.window))
