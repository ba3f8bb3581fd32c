"""Messages that can't be processed: kept whole on the dead-letter topic, with reason and origin.

The headers follow Kafka Connect, Kafka Streams (KIP-1034) and Spring, so that existing tools
understand them.
"""

from __future__ import annotations

import logging
import string
import threading
import traceback
import zlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import DeadLetterFlood, FormatError, MessageTooLargeError, PermanentError
from tidegate.events import derived_id
from tidegate.events.message import Headers
from tidegate.events.topics import DEAD_LETTERS
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
ID_HEADER = "tidegate-dead-letter-id"
VALUE_LEFT_OUT = "tidegate-value-left-out"
"""On a dead letter without the original value, which its topic was too small for: its bytes."""
KEY_LEFT_OUT = "tidegate-key-left-out"
"""On a dead letter that has only the place of its message: the bytes of the original key."""
HEADERS_LEFT_OUT = "tidegate-headers-left-out"
"""On a dead letter without the original headers: why."""
UNKNOWN_SIZE: Final = b"unknown"
"""In place of the bytes that were left out, where the client could not read the message."""
MAX_REASON: Final = 8000
"""Characters of a reason that are kept; it may quote the faulty input at any length."""
MAX_OF_A_KEY: Final = 10
"""How many invalid messages of one key, as a rule of one table, count towards the limit."""
MANY_KEYS: Final = 3
"""Where all messages of so many keys are invalid and no other comes in between, each counts."""
_SUCCEEDED: Final = "."
_FAILED: Final = "x"
_INVALID: Final = "".join(
    ascii_dead_letter for ascii_dead_letter in string.ascii_letters if ascii_dead_letter != _FAILED
)
"""One character for each key, by its hash: two keys may share one."""


def dead_letter(record: Record, group: str, error: BaseException, topic: str) -> Message:
    """Make the dead letter of a record: its own key, value and headers, and the reason.

    The id is derived from group, topic, partition, offset and the broker's timestamp: a dead
    letter written twice after a crash is recognised, and one from a topic that was created again
    is not taken for an older one. It goes to the partition of the same number.
    """
    added = _reasons(record, group, error)
    try:
        own = tuple(record.headers)
    except FormatError:
        own, added = (), (*added, (HEADERS_LEFT_OUT, b"unreadable"))
    if record.unreadable:
        added = (*added, *((each, UNKNOWN_SIZE) for each in (VALUE_LEFT_OUT, KEY_LEFT_OUT)))
    return Message(topic, record.key, record.value, (*own, *added), record.partition.number)


def _reasons(record: Record, group: str, error: BaseException) -> Headers:
    where, offset = record.partition, str(record.offset)
    number, stamp = str(where.number), str(record.timestamp_ms)
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    message = _truncated(str(error))
    trace = _truncated("".join(traceback.format_exception(error, limit=20)))
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
    # an error may quote a path that is not valid text
    return tuple((name, text.encode("utf-8", "backslashreplace")) for name, text in reasons.items())


def without_value(letter: Message) -> Message:
    """The same dead letter without its value, for a topic that does not accept one so large."""
    size = str(len(letter.value or b"")).encode()
    return letter._replace(value=None, headers=(*letter.headers, (VALUE_LEFT_OUT, size)))


def place_only(record: Record, group: str, error: BaseException, topic: str) -> Message:
    """A dead letter with the reason and the origin only, where key or headers are too large too."""
    size = str(len(record.value or b"")).encode()
    left_out = ((VALUE_LEFT_OUT, size), (KEY_LEFT_OUT, str(len(record.key or b"")).encode()))
    headers = (*_reasons(record, group, error), *left_out, (HEADERS_LEFT_OUT, b"too large"))
    return Message(topic, None, None, headers, record.partition.number)


def _truncated(text: str) -> str:
    """A reason at a length that people read: five headers repeat it."""
    left = len(text) - MAX_REASON
    return text if left <= 0 else f"{text[:MAX_REASON]}... and {left} more characters"


def _mark(record: Record, error: BaseException) -> str:
    # whoever published it is at fault, not the code
    if isinstance(error, FormatError | PermanentError | MessageTooLargeError):
        return _INVALID[zlib.crc32(record.key or b"") % len(_INVALID)]
    return _FAILED


def _counted(seen: Sequence[str]) -> int:
    marks = Counter(seen)
    if not marks[_SUCCEEDED] and len(marks.keys() - {_FAILED}) >= MANY_KEYS:
        return len(seen)
    return marks[_FAILED] + sum(min(marks[each], MAX_OF_A_KEY) for each in _INVALID)


@dataclass(slots=True)
class DeadLetterLimit:
    """Stops a service when nearly all of its messages fail: its code is at fault, not the data.

    At most `max_failures` of the last `window` messages of a partition may become dead letters. Of
    messages that are invalid in themselves a key has at most MAX_OF_A_KEY counted: one table's bad
    writer stops nobody else. All count where nothing succeeds and MANY_KEYS are affected: then it
    is the schema, or how it is read. Where the code fails on a valid message, each failure counts.
    What the client can't read has no key, and counts as if all of it had the same. The
    loop commits the partition's `history` with its offset and restores it when it is assigned the
    partition, so the count survives restarts and changes of owner. Thread-safe.
    """

    window: int = 100
    max_failures: int = 50
    _recent: dict[Partition, deque[str]] = field(default_factory=dict[Partition, deque[str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def succeeded(self, partition: Partition) -> None:
        """Count a processed message, where any failed before: this runs for every message."""
        if self._recent and (recent := self._recent.get(partition)):
            recent.append(_SUCCEEDED)

    def failed(self, record: Record, error: BaseException, service: str) -> None:
        """Count a dead letter, before it is written.

        Raises:
            DeadLetterFlood: it would be one too many; the message stays unacknowledged.
        """
        partition = record.partition
        recent, mark = self._begin(partition), _mark(record, error)
        with self._lock:
            seen = [*recent, mark][-self.window :]
            if (failed := _counted(seen)) > self.max_failures:
                raise DeadLetterFlood(
                    f"{failed} of the last {len(seen)} messages for {service} on"
                    f" {partition.topic}[{partition.number}] failed, so {service} stops and writes"
                    " no further dead letters. See the reasons with: tidegate dead-letters list"
                    f" --service {service}. Correct the code or the settings and start {service}"
                    " again. Only if the messages themselves are bad, raise max_failures in"
                    f" [services.{service}.dead_letters]"
                )
            recent.append(mark)

    def history(self, partition: Partition) -> str:
        """The last messages of a partition, one character each, to commit with its offset."""
        return "".join(self._recent.get(partition, deque()).copy())

    def restore(self, partition: Partition, history: str) -> None:
        """Continue from a committed history; anything else counts as an empty one."""
        valid = set(history) <= {_SUCCEEDED, _FAILED, *_INVALID}
        with self._lock:
            self._recent.pop(partition, None)
            if history and valid:
                self._recent[partition] = deque(history, self.window)

    def _begin(self, partition: Partition) -> deque[str]:
        with self._lock:
            return self._recent.setdefault(partition, deque(maxlen=self.window))


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """Writes the dead letters of one service, as many as its limit allows. Thread-safe."""

    service: str
    bus: Bus
    prefix: str
    retries: RetryPolicy
    limit: DeadLetterLimit

    def send(self, record: Record, error: BaseException) -> None:
        """Write a record to the dead-letter topic; returns when the broker has it.

        Raises:
            DeadLetterFlood: the limit is reached; nothing was written.
            DeliveryError: the broker did not confirm it within the retries; the record must not be
                acknowledged.
        """
        self.limit.failed(record, error, self.service)
        where = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
        log.warning("%s: dead-lettering %s: %.1000s", self.service, where, error)
        self._send(record, error)

    def _send(self, record: Record, error: BaseException) -> None:
        """Send the most complete dead letter that its topic accepts: none holds up a partition."""
        topic = DEAD_LETTERS.name(self.prefix)
        count = self.retries.call(lambda: self.bus.partitions(topic))
        letter = dead_letter(record, self.service, error, topic)
        if record.partition.number >= count:  # the dead-letter topic has fewer partitions
            letter = letter._replace(partition=record.partition.number % count)
        try:
            self.retries.call(lambda: self.bus.send([letter]))
        except MessageTooLargeError:
            small = without_value(letter)
        else:
            return
        try:
            self.retries.call(lambda: self.bus.send([small]))
        except MessageTooLargeError:
            place = place_only(record, self.service, error, topic)
            place = place._replace(partition=letter.partition)
            self.retries.call(lambda: self.bus.send([place]))
