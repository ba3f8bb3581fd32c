"""Reads several partitions as one stream, in the order in which the broker appended the records.

One consumer reads all of them. It pauses a partition while enough of its records wait in memory, so
memory stays bounded however long the topic is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.publisher.connection import arrived
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.errors import require_transient
from tidegate.runtime.kafka.records import (
    BATCH,
    Config,
    as_record,
    is_end,
    named,
    read_up_to,
    standalone_consumer,
)

_WAITING: Final = 1000
"""Records of one partition that may wait in memory."""
_WAITING_BYTES: Final = 32 * 2**20
"""Bytes of waiting values of all partitions together. One record of each partition always fits."""
_PATIENCE: Final = 30.0
_BOUNDED: Final[Config] = {"queued.min.messages": 1000, "queued.max.messages.kbytes": 4096}


@dataclass(slots=True)
class _Source:
    """One partition: the offsets still to read, and the records that wait in memory."""

    span: range
    waiting: deque[Record] = field(default_factory=deque[Record])
    size: int = 0
    """Bytes of the values that wait."""
    next_offset: int = 0
    is_paused: bool = False
    is_over: bool = False


class MergedReader:
    """Reads spans of offsets in order of the broker's time and, on request, the records after them.

    Use it in a `with` block. Call `records` first; `following` is optional.
    """

    def __init__(
        self, config: Config, spans: Mapping[Partition, range], *, waiting: int = _WAITING
    ) -> None:
        """Take librdkafka's settings and the offsets to read. The first record connects."""
        self._config, self._limit = config, waiting
        self._sources = {
            part: _Source(span, next_offset=span.start, is_over=not span)
            for part, span in spans.items()
        }
        self._share = _WAITING_BYTES // max(1, len(spans))
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def records(self) -> Iterator[Record]:
        """The records at the offsets of the spans, oldest first.

        Raises:
            TransientError: the brokers did not return the next record within half a minute.
            StopService: the broker refuses access, or an offset was deleted meanwhile.
        """
        while any(source.waiting or not source.is_over for source in self._sources.values()):
            self._fill()
            ready = [source for source in self._sources.values() if source.waiting]
            if not ready:  # the last partitions turned out to end early
                continue
            oldest = min(ready, key=lambda source: source.waiting[0].timestamp_ms)
            record = oldest.waiting.popleft()
            oldest.size -= len(record.value or b"")
            self._resume_if_low(record.partition, oldest)
            yield record

    def following(self) -> Iterator[Record | None]:
        """Yield the records after the spans as they arrive, and None from time to time while idle.

        The stream never ends. It waits while the broker is away.

        Raises:
            StopService: the broker refuses access, or an offset was deleted meanwhile.
        """
        consumer = self._connected()
        for part, source in self._sources.items():
            source.span = range(source.span.start, 2**63)
            if source.is_paused:
                consumer.resume([TopicPartition(*part)])
        while True:
            received = arrived(consumer, BATCH, 0.5)
            found = [message for message in received if self._is_record(message)]
            yield from map(as_record, found)
            if not found:
                yield None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            topic = next(iter(self._sources)).topic
            self._consumer = standalone_consumer({**_BOUNDED, **self._config}, topic)
            starts = [TopicPartition(*p, source.next_offset) for p, source in self._sources.items()]
            self._consumer.assign(starts)
        return self._consumer

    def _fill(self) -> None:
        """Wait until every partition that is not read to its end has a record in memory."""
        deadline = time.monotonic() + _PATIENCE
        while missing := [
            part
            for part, source in self._sources.items()
            if not source.is_over and not source.waiting
        ]:
            for message in arrived(self._connected(), BATCH, 0.1):
                self._take(message)
                deadline = time.monotonic() + _PATIENCE
            if time.monotonic() > deadline:
                names = ", ".join(f"{part.topic}[{part.number}]" for part in missing)
                raise TransientError(f"{names}: no record arrived within {_PATIENCE:.0f} s")

    def _take(self, message: Received) -> None:
        is_record = self._is_record(message)
        part = Partition(message.topic() or "", message.partition() or 0)
        if (source := self._sources.get(part)) is None:
            return  # a fault of the client, not of one partition
        at = message.offset() or 0
        # a new leader's end may be too early
        source.is_over |= (read_up_to(message) or 0) >= source.span.stop
        if not is_record:
            return
        if at in source.span and at >= source.next_offset:
            source.waiting.append(as_record(message))
            source.size += len(message)
            source.next_offset = at + 1
        is_full = len(source.waiting) >= self._limit or source.size >= self._share
        if is_full and not source.is_paused and not source.is_over:
            self._connected().pause([TopicPartition(*part)])
            source.is_paused = True

    def _resume_if_low(self, part: Partition, source: _Source) -> None:
        is_low = len(source.waiting) <= self._limit // 2 and source.size <= self._share // 2
        if source.is_paused and is_low:
            self._connected().resume([TopicPartition(*part)])
            source.is_paused = False

    def _is_record(self, message: Received) -> bool:
        error = message.error()
        if error is None:
            return True
        if not is_end(error):
            require_transient(error, f"reading {named(message, self._sources)}")
        return False
