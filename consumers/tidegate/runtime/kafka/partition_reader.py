"""Reads partitions outside of any group, so that no committed offset moves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.publisher.connection import arrived
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.errors import is_unreadable, require_transient
from tidegate.runtime.kafka.records import (
    BATCH,
    MAX_RECEIVED,
    REPORTS_ENDS,
    Config,
    as_record,
    is_end,
    read_up_to,
    unreadable_record,
)

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
