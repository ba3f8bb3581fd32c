"""Topics read from the side: outside of every group, so that nobody's offsets move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from confluent_kafka import TopicPartition

from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.kafka_faults import told_apart
from tidegate.runtime.kafka_reading import read_spans, side_reader
from tidegate.runtime.kafka_records import Config, as_record

_WAIT: Final = 30.0


class TopicLog:
    """Reads what topics hold at the moment of the call; what comes later is not waited for."""

    def __init__(self, config: Config, bus: Bus) -> None:
        """Take librdkafka's settings, and the bus that knows what the topics hold."""
        self._config, self._bus = config, bus

    def spans(self, topic: str) -> dict[Partition, range]:
        """The offsets that each partition of a topic holds.

        Raises:
            ConfigError: there is no such topic.
        """
        parts = (Partition(topic, number) for number in range(self._bus.partitions(topic)))
        extents = ((part, self._bus.extent(part)) for part in parts)
        return {part: range(each.first, each.end) for part, each in extents}

    def offsets_at(self, topic: str, moment: datetime) -> dict[Partition, int]:
        """The first offset of each partition that the broker appended at a moment or later.

        Where there is none, it is the partition's end.
        """
        spans = self.spans(topic)
        moment_ms = int(moment.timestamp() * 1000)
        asked = [TopicPartition(*part, moment_ms) for part in spans]
        consumer = side_reader(self._config, topic)
        try:
            with told_apart(f"{topic}: offsets at {moment.isoformat()}"):
                found = consumer.offsets_for_times(asked, timeout=_WAIT)
        finally:
            consumer.close()
        at = {Partition(each.topic, each.partition): each.offset for each in found}
        return {part: at[part] if at[part] >= 0 else span.stop for part, span in spans.items()}

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        """Give the records at these offsets, those of a partition in order.

        Raises:
            TransientError: the broker can't give all of them now.
            StopService: the broker refuses us, or an offset is gone meanwhile.
        """
        return map(as_record, read_spans(self._config, spans))
