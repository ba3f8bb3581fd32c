"""confluent-kafka's messages as the bus's records, and the end of a partition.

The end, the same for all readers and counters, is the last stable offset: the first one that a
consumer of committed records can't read yet. Before it, some offsets hold no record: markers of
transactions, and aborted records. So the position of a reader does not follow from the records
alone. When the client reaches the end it reports the offset that it would read next, and every
comparison with an end uses that offset.

An open transaction hides the records that were appended after it began. For tools and for the lag
the partition ends there. `APPENDED` is the end behind it. Two readers use it, because they must not
miss hidden records: the owner of a changelog, and a service that checks for reasons against a
destructive step. That check fails while a transaction hides records.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, Final, cast

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, IsolationLevel, KafkaError

from tidegate.events.codec import Headers
from tidegate.runtime.bus import Partition, Record

if TYPE_CHECKING:
    from confluent_kafka import Message as Received

REPORTS_ENDS: Final = {"enable.partition.eof": True}
"""The setting that makes a consumer report the end of a partition, as an error."""
STABLE: Final = IsolationLevel.READ_COMMITTED
"""The isolation level of a request for ends."""
APPENDED: Final = IsolationLevel.READ_UNCOMMITTED
"""The isolation level of a request for ends that include what open transactions hide."""
Config = Mapping[str, str | int | bool]
"""librdkafka's settings."""
_NOT_UTF8: Final = "the headers can't be read: a name is not UTF-8"
# For a name that is not UTF-8 the client returns a list and leaves an exception set. Python checks
# for that after this call; it stops checking after a plain call once that was specialised.
_headers: Final = methodcaller("headers")
BATCH: Final = 100
"""Messages that are taken from the client at a time. Their bytes are bounded by what it fetches
ahead (`queued.max.messages.kbytes`), because no batch waits for more."""
MAX_RECEIVED: Final = 2**28
"""The largest fetched batch in bytes, uncompressed. Of a larger one only the location is read.

Our own producers put at most half of that into a batch. A few kilobytes of zstd can unpack to
gigabytes.
"""
LARGE: Final[Config] = {
    "compression.type": "lz4",
    "message.max.bytes": 2**27,  # before compression; each topic has its own, smaller limit
}
"""For producers of large messages: a table's state, or a dead letter as large as its cause."""


def as_record(message: Received) -> Record:
    """Convert a received message."""
    key, value, unreadable = message.key(), message.value(), ""
    try:
        # confluent-kafka's type is wider than the list of pairs that it returns
        headers = tuple(cast("Headers", _headers(message) or ()))
    except (SystemError, UnicodeError):  # what the client raises for such a name
        headers, unreadable = (), _NOT_UTF8
    time_type, timestamp_ms = message.timestamp()
    return Record(
        Partition(message.topic() or "", message.partition() or 0),
        message.offset() or 0,
        as_bytes(key),
        as_bytes(value),
        headers,
        timestamp_ms,
        unreadable,
        time_type == TIMESTAMP_LOG_APPEND_TIME,
    )


def unreadable_record(place: Partition, offset: int, error: KafkaError | None) -> Record:
    """The record of a message that the client can't read: only its location is known."""
    reason = error.str() if error else "unknown"
    return Record(place, offset, None, None, (), 0, f"the client can't read it: {reason}")


def as_bytes(content: bytes | str | None) -> bytes | None:
    """Narrow confluent-kafka's typing, which allows text where a broker only has bytes."""
    return content.encode() if isinstance(content, str) else content


def is_end(error: KafkaError) -> bool:
    """Whether an error stands for the end of a partition."""
    return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001 - its only name


def read_up_to(message: Received) -> int | None:
    """The offset before which the partition was read completely, given its latest message.

    None if the message is an error other than the end: then the offset is unknown.
    """
    offset, error = int(message.offset() or 0), message.error()
    if error is None:
        return offset + 1
    return offset if is_end(error) else None
