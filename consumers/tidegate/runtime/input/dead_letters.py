"""Copies messages that can't be processed to the dead-letter topic, with reason and origin.

The headers follow Kafka Connect, Kafka Streams (KIP-1034) and Spring, so that existing tools
understand them.
"""

from __future__ import annotations

import logging
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import FormatError, MessageTooLargeError
from tidegate.events import derived_id
from tidegate.events.codec import Headers
from tidegate.events.topics import DEAD_LETTERS
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.input.dead_letter_limit import FAULT_HEADER, DeadLetterLimit, Fault, fault_of
from tidegate.runtime.input.uncopied import Uncopied
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
REDRIVEN_FROM: Final = "tidegate-redriven-from"
ID_HEADER = "tidegate-dead-letter-id"
VALUE_LEFT_OUT = "tidegate-value-left-out"
"""On a dead letter without the original value, which was too large: its size in bytes."""
KEY_LEFT_OUT = "tidegate-key-left-out"
"""On a dead letter with only the location of its message: the size of the original key."""
HEADERS_LEFT_OUT = "tidegate-headers-left-out"
"""On a dead letter without the original headers: the reason."""
OFFSETS_HEADER = "tidegate-uncopied-offsets"
"""On a dead letter that stands for several messages: their first and last offset, as 3-17."""
COUNT_HEADER = "tidegate-uncopied"
"""On such a dead letter: how many messages it stands for."""
UNKNOWN_SIZE: Final = b"unknown"
"""In place of a size, if the client could not read the message."""
MAX_REASON: Final = 8000
"""The longest reason, in characters. A reason may quote faulty input of any length."""
_QUOTED: Final = 300
"""Characters of the reason of the last message that was not copied."""
_SEPARATOR: Final = "~"
_DIGITS: Final = 9


def dead_letter(record: Record, group: str, error: BaseException, topic: str) -> Message:
    """Make the dead letter of a record: its own key, value and headers, and the reason.

    The id is derived from group, topic, partition, offset and the broker's timestamp. So a
    dead letter written twice after a crash is recognised, and a dead letter from a topic that was
    created again differs from an older one. It goes to the partition of the same number.
    """
    added = _reasons(record, group, error)
    if record.unreadable and record.key is record.value is None:
        added = (*added, *((name, UNKNOWN_SIZE) for name in (VALUE_LEFT_OUT, KEY_LEFT_OUT)))
    elif record.unreadable:
        added = (*added, (HEADERS_LEFT_OUT, b"unreadable"))
    headers = (*record.headers, *added)
    return Message(topic, record.key, record.value, headers, record.partition.number)


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
        FAULT_HEADER: fault_of(error),
    }
    # an error may quote a path that is not valid text
    return tuple((name, text.encode("utf-8", "backslashreplace")) for name, text in reasons.items())


def counted(headers: Headers) -> tuple[str, int]:
    """The fault of a dead letter's messages (see `Fault`), and the number of these messages.

    Another tool's dead letter stands for one message of an unknown fault.
    """
    found = dict(headers)
    fault = (found.get(FAULT_HEADER) or b"").decode(errors="replace")
    count = (found.get(COUNT_HEADER) or b"").decode(errors="replace")
    is_count = len(count) <= _DIGITS and count.isascii() and count.isdecimal()
    return fault if fault in set(Fault) else "unknown", int(count) if is_count else 1


def without_value(message: Message) -> Message:
    """The same dead letter without its value, for a topic whose limit it exceeds."""
    size = str(len(message.value or b"")).encode()
    return message._replace(value=None, headers=(*message.headers, (VALUE_LEFT_OUT, size)))


def _place_only(message: Message) -> Message:
    """The same without value, key and headers; its `headers` are the reason and the origin."""
    size = str(len(message.key or b"")).encode()
    left_out = ((KEY_LEFT_OUT, size), (HEADERS_LEFT_OUT, b"too large"))
    smaller = without_value(message)
    return smaller._replace(key=None, headers=(*smaller.headers, *left_out))


def _truncated(text: str) -> str:
    """Limit a reason's length: several headers repeat it."""
    left = len(text) - MAX_REASON
    return text if left <= 0 else f"{text[:MAX_REASON]}... and {left} more characters"


def uncopied(partition: Partition, known: Uncopied, group: str, topic: str) -> Message:
    """One dead letter for all messages of a partition that were not copied."""
    reason = f"; the last one: {known.reason}" if known.reason else ""
    where = f"{partition.topic}[{partition.number}]"
    error = FormatError(
        f"{known.count} more messages of {where} are invalid, too many to copy them all: between"
        f" the offsets {known.first} and {known.last}{reason}. The messages are on their topic;"
        " once they can be processed, publish them again with `tidegate replay events`"
    )
    first = Record(partition, known.first, None, None, (), known.since_ms)
    headers = _reasons(first, group, error)
    added = (
        (OFFSETS_HEADER, f"{known.first}-{known.last}".encode()),
        (COUNT_HEADER, str(known.count).encode()),
        (VALUE_LEFT_OUT, UNKNOWN_SIZE),
        (KEY_LEFT_OUT, UNKNOWN_SIZE),
    )
    return Message(topic, None, None, (*headers, *added), partition.number)


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """Writes the dead letters of one service, as many as its limits allow. Thread-safe.

    Commit the `history` of a partition with its offset, and `restore` it at an assignment. It has
    the count of failures and the recorded offsets that are not written yet.
    """

    service: str
    bus: Bus
    prefix: str
    retries: RetryPolicy
    limit: DeadLetterLimit
    _uncopied: dict[Partition, Uncopied] = field(default_factory=dict[Partition, Uncopied])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while recorded offsets are written, so that no offset is committed as written before."""

    def send(self, record: Record, error: BaseException) -> None:
        """Write a record to the dead-letter topic; return when the broker has it.

        If there are many invalid messages, only their offsets are recorded: see `uncopied`.

        Raises:
            DeadLetterFlood: the limit is reached; nothing was written.
            DeliveryError: the broker did not confirm it within the retries; the record must not be
                acknowledged.
        """
        fault = self.limit.failed(record, error, self.service)
        if fault is Fault.MESSAGE and not self._may_copy(record, error):
            return
        where = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
        log.warning("%s: dead-lettering %s: %.1000s", self.service, where, error)
        self.send_copy(record, error)

    def history(self, partition: Partition) -> str:
        """The text to commit with a partition's offset, at most 2,000 characters."""
        with self._lock:
            known = self._uncopied.get(partition)
            text = known.serialize() if known else ""
        counted = self.limit.history(partition)
        return f"{counted}{_SEPARATOR}{text}" if text else counted

    def restore(self, partition: Partition, history: str) -> None:
        """Continue from a committed history; anything else counts as an empty one."""
        counted, _, text = history.partition(_SEPARATOR)
        self.limit.restore(partition, counted)
        with self._lock:
            self._uncopied.pop(partition, None)
            if text:
                self._uncopied[partition] = Uncopied()
                self._uncopied[partition].restore(text)

    def write_recorded(self, *, all_of_them: bool = False) -> list[Partition]:
        """Write the offsets that were recorded a minute ago, or all of them, to the dead letters.

        Returns:
            Their partitions. The commit metadata of these still has the offsets: commit it again.
        """
        if not self._uncopied:
            return []
        with self._lock:
            due = [
                partition
                for partition, known in self._uncopied.items()
                if known.is_due or (all_of_them and known.count)
            ]
            for partition in due:
                self._write_recorded(partition, self._uncopied[partition])
        return due

    def forget(self) -> None:
        """Drop all recorded offsets: the partitions' next owner has them in the commit metadata."""
        with self._lock:
            self._uncopied.clear()

    def send_copy(self, record: Record, error: BaseException) -> None:
        """Send the most complete dead letter that the topic accepts, so that no size blocks it."""
        topic = DEAD_LETTERS.name(self.prefix)
        copy = self._placed(dead_letter(record, self.service, error, topic))
        for smaller in (copy, without_value(copy)):
            with suppress(MessageTooLargeError):
                self._deliver(smaller)
                return
        reasons = copy.headers[len(record.headers) :]
        self._deliver(_place_only(copy._replace(headers=reasons)))

    def _may_copy(self, record: Record, error: BaseException) -> bool:
        with self._lock:
            known = self._uncopied.setdefault(record.partition, Uncopied())
            if known.may_copy(record):
                return True
            known.add(record, str(error)[:_QUOTED])
            if known.is_due:
                self._write_recorded(record.partition, known)
        return False

    def _write_recorded(self, partition: Partition, known: Uncopied) -> None:
        where = f"{partition.topic}[{partition.number}]"
        log.warning(
            "%s: %d more messages of %s are invalid and only counted, not copied: offsets %d to %d",
            *(self.service, known.count, where, known.first, known.last),
        )
        message = uncopied(partition, known, self.service, DEAD_LETTERS.name(self.prefix))
        self._deliver(self._placed(message))
        known.written()

    def _placed(self, message: Message) -> Message:
        """Choose an existing partition: the dead-letter topic may have fewer than the inputs."""
        count = self.retries.call(lambda: self.bus.partitions(message.topic))
        return message._replace(partition=(message.partition or 0) % count)

    def _deliver(self, message: Message) -> None:
        self.retries.call(lambda: self.bus.send([message]))
