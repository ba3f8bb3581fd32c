"""Read facts back from their topics: all of them once, then what is new."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidegate.errors import FormatError
from tidegate.events import Event
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.runtime.kafka.records import Config

log = logging.getLogger(__name__)
_BATCH: Final = 10_000


class FactsReader:
    """Reads every partition of some topics, outside of any group, from their beginning on."""

    def __init__(
        self, config: Config, topics: Sequence[str], group: str, wire: Wire | None = None
    ) -> None:
        """Take librdkafka's settings, and the group whose access rights allow to read.

        Nothing is ever committed in its name.
        """
        self._config, self._topics, self._group = config, tuple(topics), group
        self._wire = wire or Wire()
        self._metadata = KafkaMetadata(config)
        self._next: dict[Partition, int] = {}

    def read(self) -> Iterator[list[Event]]:
        """What the topics hold since the last time, in batches; the topics in their order.

        Raises:
            TransientError: not all of it could be read now; the next call begins where this began.
            StopService: the broker refuses access.
        """
        for topic in self._topics:
            yield from self._read(topic)

    def _read(self, topic: str) -> Iterator[list[Event]]:
        parts = [Partition(topic, number) for number in range(self._metadata.partitions(topic))]
        marks = self._metadata.watermarks(parts)
        spans = {
            part: range(max(each.first, self._next.get(part, 0)), each.end)
            for part, each in marks.items()
        }
        batch: list[Event] = []
        for record in self._records(spans):
            event = self._decoded(record)
            if event is not None:
                batch.append(event)
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        self._next |= {part: each.end for part, each in marks.items()}
        if batch:
            yield batch

    def _records(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        # what retention removes while it is read was released, or is waited for longer
        return read_spans(self._config, spans, on_missing_offset="earliest", group=self._group)

    def _decoded(self, record: Record) -> Event | None:
        try:
            return self._wire.deserialize(record.key, record.value, record.headers)
        except FormatError as error:  # the service that consumes it dead-letters it
            log.debug("%s at %d is passed over: %s", record.partition, record.offset, error)
            return None
