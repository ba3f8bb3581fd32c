"""One consumer for many short readings: a new one each time would cost most of the reading."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.partition_reader import QUICK, records_of, standalone_consumer
from tidegate.runtime.kafka.records import Config

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class KeptConsumer:
    """Reads spans of offsets, and keeps the consumer for the next reading of the same topic.

    Between readings it is assigned nothing, so it fetches nothing. Two readings at once have a
    consumer each; the one that ends last is kept. Thread-safe.
    """

    def __init__(self, config: Config) -> None:
        """Take librdkafka's settings; nothing is connected before the first reading."""
        self._config = config
        self._lock = threading.Lock()
        self._kept: tuple[str, Consumer] | None = None
        self._is_closed = False

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        """Yield the committed records of one topic at these offsets; see `read_spans`.

        Records that were deleted meanwhile are passed over.

        Raises:
            TransientError: not all of them could be read now.
            StopService: the broker refuses access.
        """
        if not any(spans.values()):
            return
        topic = next(iter(spans)).topic
        consumer = self._taken(topic)
        try:
            yield from records_of(consumer, spans)
            consumer.unassign()
        except BaseException:  # what this consumer has still to give would disturb the next reading
            consumer.close()
            raise
        self._keep(topic, consumer)

    def close(self) -> None:
        """Close the consumer that is kept; one that is reading is closed at its end."""
        with self._lock:
            self._is_closed, kept, self._kept = True, self._kept, None
        if kept is not None:
            kept[1].close()

    def _taken(self, topic: str) -> Consumer:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None and kept[0] == topic:
            return kept[1]
        if kept is not None:
            kept[1].close()
        # access rights ask for a group: one that is named as the topic
        return standalone_consumer({**self._config, **QUICK}, topic, on_missing_offset="earliest")

    def _keep(self, topic: str, consumer: Consumer) -> None:
        with self._lock:
            if self._is_closed:
                spare: Consumer | None = consumer
            else:
                spare = self._kept[1] if self._kept else None
                self._kept = topic, consumer
        if spare is not None:
            spare.close()
