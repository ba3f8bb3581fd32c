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
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Final, Self, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka import Message as Received

from tidegate.errors import StopService, TransientError
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
_QUICK: Final[Config] = {
    # an empty fetch response reports the end of a partition: after 3 ms instead of 500 ms
    "fetch.wait.max.ms": 3,
    "fetch.error.backoff.ms": 50,
}
"""For consumers that stop at an end. A consumer that waits there for more needs no such haste."""
_BOUNDED: Final[Config] = {"queued.min.messages": 1000, "queued.max.messages.kbytes": 4096}
_WAITING: Final = 1000
"""Records of one partition that may wait in memory."""
_WAITING_BYTES: Final = 32 * 2**20
"""Bytes of waiting values of all partitions together. One record of each partition always fits."""
_GRACE: Final = 0.5
"""A committed transaction is visible in all its partitions within a few milliseconds."""


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


class PartitionReader:
    """Reads partitions outside of any group, with one consumer. Use it in a `with` block."""

    def __init__(
        self,
        config: Config,
        starts: Mapping[Partition, int],
        group: str | None = None,
        *,
        committed: bool = True,
        waits: bool = False,
    ) -> None:
        """Begin at these offsets, or at a partition's first offset if that is later.

        Args:
            config: librdkafka's settings.
            starts: By partition the first offset to read.
            group: The group whose access rights the broker checks; nothing is committed in its
                name. By default one with the name of the first topic.
            committed: Whether to leave out records of open and aborted transactions.
            waits: Whether it waits at the ends for more. A deleted offset is then an error.
        """
        self.positions = dict(starts)
        """By partition, the offset before which everything was read."""
        self._at_end: set[Partition] = set()
        self._names = ", ".join(sorted({part.topic for part in starts}))
        own: Config = {
            "group.id": group or next(iter(starts)).topic,
            "auto.offset.reset": "error" if waits else "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        quick = {} if waits else _QUICK
        self._consumer = Consumer({**_AHEAD, **config, **quick, **_READER, **own})
        self._consumer.assign([TopicPartition(*part, offset) for part, offset in starts.items()])

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._consumer.close()

    def pause(self, partition: Partition) -> None:
        """Return no more records of a partition."""
        self._consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: Partition) -> None:
        """Return records of a partition again."""
        self._consumer.resume([TopicPartition(*partition)])

    def poll(self, seconds: float) -> list[Record]:
        """Wait up to `seconds` for a record; return it with those that have arrived.

        One that the client can't read has only its location (`Record.unreadable` has the reason).

        Raises:
            StopService: the broker refuses access.
        """
        found: list[Record] = []
        unreadable: dict[Partition, Received] = {}
        for message in arrived(self._consumer, BATCH, seconds):
            part = Partition(message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                found.append(as_record(message))
                self._at_end.discard(part)
            elif is_end(error):
                self._at_end.add(part)
            elif is_unreadable(error) and part in self.positions:
                unreadable[part] = message  # the client repeats it until it is passed over
            else:  # a fault of the complete client has no partition
                where = f"{part.topic}[{part.number}]" if part.topic else self._names
                require_transient(error, f"reading {where}")
            if (position := read_up_to(message)) is not None:
                self.positions[part] = max(self.positions[part], position)
        for part, message in unreadable.items():
            record = pass_over(self._consumer, message, self.positions[part])
            self.positions[part] = record.offset + 1
            found.append(record)
        return found

    def read(self, until: Mapping[Partition, int], *, decided: bool = False) -> Iterator[Record]:
        """Yield records up to these offsets, and perhaps some after them.

        Args:
            until: By partition the offset at which to stop.
            decided: Also stop at a transaction that stays open for more than half a second: its
                records can't be read before it is committed or aborted.

        Raises:
            TransientError: nothing more of them could be read for 30 seconds.
            StopService: the broker refuses access.
        """
        began = progress = time.monotonic()
        # a new leader's end may be too early: the position counts, not that an end was reached
        while missing := [part for part, end in until.items() if self.positions[part] < end]:
            waited = time.monotonic() - began
            if decided and waited > _GRACE and self._at_end.issuperset(missing):
                return
            before = [self.positions[part] for part in missing]
            records = self.poll(0.05)
            has_moved = before != [self.positions[part] for part in missing]
            if not has_moved and time.monotonic() - progress > _WAIT:
                raise TransientError(self._why_not(missing))
            yield from records
            if has_moved:
                progress = time.monotonic()

    def _why_not(self, missing: Iterable[Partition]) -> str:
        names = ", ".join(f"{part.topic}[{part.number}]" for part in missing)
        text = f"{names}: not read to the end within {_WAIT:.0f} s without progress"
        hidden = [
            f"{part.topic}[{part.number}] from offset {self.positions[part]}"
            for part in missing
            if part in self._at_end
        ]
        if hidden:
            text += (
                f". An open transaction hides {', '.join(hidden)} on: if it does not end, see An"
                " open transaction hides events in docs/runbook.md"
            )
        return text


def readable(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records of which none may be passed over.

    Raises:
        StopService: the client can't read one of them.
    """
    for record in records:
        if record.unreadable:
            where = f"{record.partition.topic}[{record.partition.number}]@{record.offset}"
            raise StopService(f"reading {where}: {record.unreadable}")
        yield record


def read_spans(
    config: Config, spans: Mapping[Partition, range], *, group: str | None = None
) -> Iterator[Record]:
    """Yield the committed records at these offsets; those of a partition are in order.

    Records that were deleted meanwhile are left out. One that the client can't read has only its
    location (`Record.unreadable` has the reason).

    Raises:
        TransientError: not all records could be read now.
        StopService: the broker refuses access.
    """
    starts = {part: span.start for part, span in spans.items() if span}
    if not starts:
        return
    with PartitionReader(config, starts, group) as reader:
        for record in reader.read({part: spans[part].stop for part in starts}):
            if record.offset in spans[record.partition]:
                yield record


@dataclass(slots=True)
class _Waiting:
    """The records of one partition that wait in memory for their turn."""

    span: range
    records: deque[Record] = field(default_factory=deque[Record])
    size: int = 0
    """Bytes of their values."""
    is_paused: bool = False


def read_in_order(
    config: Config, spans: Mapping[Partition, range], *, limit: int = _WAITING
) -> Iterator[Record]:
    """Yield the records of `read_spans` in the order in which the broker appended them.

    A partition is paused while `limit` of its records wait in memory, or many bytes, so memory
    stays bounded however long the topic is.

    Raises:
        TransientError: not all records could be read now.
        StopService: the broker refuses access.
    """
    waiting = {part: _Waiting(span) for part, span in spans.items() if span}
    if not waiting:
        return
    share = _WAITING_BYTES // len(waiting)
    starts = {part: span.start for part, span in spans.items() if span}
    with PartitionReader({**_BOUNDED, **config}, starts) as reader:

        def empty() -> dict[Partition, int]:
            """By partition without a record in memory, the offset at which it has progressed."""
            left = (part for part, it in waiting.items() if not it.records)
            at = {part: reader.positions[part] for part in left}
            return {part: begun + 1 for part, begun in at.items() if begun < spans[part].stop}

        while True:
            while missing := empty():
                for record in reader.read(missing):
                    own = waiting[record.partition]
                    if record.offset in own.span:
                        own.records.append(record)
                        own.size += len(record.value or b"")
                    is_full = len(own.records) >= limit or own.size >= share
                    if is_full and not own.is_paused:
                        reader.pause(record.partition)
                        own.is_paused = True
            ready = [it for it in waiting.values() if it.records]
            if not ready:
                return
            oldest = min(ready, key=lambda it: it.records[0].timestamp_ms)
            record = oldest.records.popleft()
            oldest.size -= len(record.value or b"")
            is_low = len(oldest.records) <= limit // 2 and oldest.size <= share // 2
            if oldest.is_paused and is_low:
                reader.resume(record.partition)
                oldest.is_paused = False
            yield record


def follow_from(config: Config, starts: Mapping[Partition, int]) -> Iterator[Record | None]:
    """Yield records from these offsets on as they arrive, and None from time to time while idle.

    The stream never ends. It waits while the broker is away.

    Raises:
        StopService: the broker refuses access, or an offset was deleted meanwhile.
    """
    with PartitionReader({**_BOUNDED, **config}, starts, waits=True) as reader:
        while True:
            records = reader.poll(0.5)
            yield from records
            if not records:
                yield None


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
