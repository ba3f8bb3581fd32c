"""Reads partitions outside of any group; messages as the bus's records; a partition's end.

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

import time
from collections.abc import Iterable, Iterator, Mapping
from operator import methodcaller
from typing import Final, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.events.codec import Headers
from tidegate.publisher.connection import arrived
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.errors import is_unreadable, require_transient

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


_WAIT: Final = 30.0
_READER: Final[Config] = {
    "enable.auto.commit": False,
    **REPORTS_ENDS,
    "allow.auto.create.topics": False,
    "receive.message.max.bytes": MAX_RECEIVED,
    "log_level": 0,
}
_AHEAD: Final[Config] = {
    "queued.max.messages.kbytes": 16_384,  # 64 MiB by default
    "fetch.max.bytes": 8 * 2**20,  # of an answer that is still to be queued: 50 MB by default
    # a full queue stops fetching for this long; the default of a second would dominate a reading
    "fetch.queue.backoff.ms": 10,
}
"""Limits on prefetching."""
QUICK: Final[Config] = {
    # an empty fetch response reports the end of a partition: after 3 ms instead of 500 ms
    "fetch.wait.max.ms": 3,
    "fetch.error.backoff.ms": 50,
}
"""For consumers that stop at an end. A consumer that waits there for more needs no such haste."""
_NOTHING: Final = range(0)


def read_spans(
    config: Config, spans: Mapping[Partition, range], *, group: str | None = None
) -> Iterator[Record]:
    """Yield the committed records at these offsets; those of a partition are in order.

    Records that were deleted meanwhile are left out. One that the client can't read has only its
    location (`Record.unreadable` has the reason).

    The broker checks the access rights of `group`, by default a group with the name of the first
    topic. Nothing is committed.

    Raises:
        TransientError: not all records could be read now.
        StopService: the broker refuses access.
    """
    if not any(spans.values()):
        return
    named = group or next(iter(spans)).topic
    consumer = standalone_consumer({**config, **QUICK}, named, on_missing_offset="earliest")
    try:
        yield from _read(consumer, spans)
    finally:
        consumer.close()


def standalone_consumer(
    config: Config, group: str, *, on_missing_offset: str = "error", committed: bool = True
) -> Consumer:
    """A consumer that never joins its group; librdkafka and the access rights need a group id.

    Unless `committed`, it also returns records of open and aborted transactions.
    """
    own: Config = {
        "group.id": group,
        "auto.offset.reset": on_missing_offset,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    return Consumer({**_AHEAD, **config, **_READER, **own})


def _read(consumer: Consumer, spans: Mapping[Partition, range]) -> Iterator[Record]:
    left = {part: span for part, span in spans.items() if span}
    consumer.assign([TopicPartition(*part, span.start) for part, span in left.items()])
    deadline = time.monotonic() + _WAIT
    while left:
        unreadable: dict[Partition, Received] = {}
        for message in arrived(consumer, BATCH, 0.1):
            part = Partition(message.topic() or "", message.partition() or 0)
            span, at = left.get(part, _NOTHING), int(message.offset() or 0)
            if (error := message.error()) is not None:
                if is_unreadable(error):
                    unreadable[part] = message  # the client repeats it until it is passed over
                    continue
                if not is_end(error):
                    require_transient(error, f"reading {named(message, spans)}")
            elif at in span:
                yield as_record(message)
                deadline = time.monotonic() + _WAIT
            # a new leader's end may be too early
            if (read_up_to(message) or 0) >= span.stop:
                left.pop(part, None)
        for record in _passed_over(consumer, unreadable, left):
            yield record
            deadline = time.monotonic() + _WAIT
        if left and time.monotonic() > deadline:
            missing = ", ".join(f"{part.topic}[{part.number}]" for part in left)
            raise TransientError(
                f"{missing}: not read to the end within {_WAIT:.0f} s without progress"
            )


def _passed_over(
    consumer: Consumer, unreadable: Mapping[Partition, Received], left: dict[Partition, range]
) -> Iterator[Record]:
    for part in unreadable.keys() & left.keys():
        span = left[part]
        record = pass_over(consumer, unreadable[part], span.start)
        left[part] = range(record.offset + 1, span.stop)
        if not left[part]:
            del left[part]
        if record.offset in span:
            yield record


def pass_over(consumer: Consumer, message: Received, start: int) -> Record:
    """Move a consumer past the record that it can't read; return a record with its location.

    The client reports the first offset of the batch every time. So each call passes over one record
    of that batch.

    Args:
        consumer: The consumer that the partition is assigned to.
        message: The error that stands for the record.
        start: The first offset that is still to be read. The consumer's position is not enough: it
            follows the records that were read, not those that were passed over.
    """
    place = Partition(message.topic() or "", message.partition() or 0)
    [position] = consumer.position([TopicPartition(*place)])
    offset = max(message.offset() or 0, position.offset, start)
    consumer.seek(TopicPartition(*place, offset + 1))
    return unreadable_record(place, offset, message.error())


def named(message: Received, spans: Iterable[Partition]) -> str:
    """The location of an error, for its message. A fault of the whole client has no partition."""
    if message.topic():
        return f"{message.topic()}[{message.partition()}]"
    return ", ".join(sorted({part.topic for part in spans}))
