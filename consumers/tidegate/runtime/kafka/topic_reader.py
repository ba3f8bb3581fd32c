"""Reading topics outside of any group, so that no committed offset moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from confluent_kafka import TopicPartition

from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.kafka.errors import translate_kafka_errors
from tidegate.runtime.kafka.partition_reader import read_spans, standalone_consumer
from tidegate.runtime.kafka.records import Config, as_record

_WAIT: Final = 30.0


class TopicReader:
    """Reads what topics hold at the moment of the call; later records are not waited for."""

    def __init__(self, config: Config, bus: Bus) -> None:
        """Take librdkafka's settings, and the bus for the topics' watermarks."""
        self._config, self._bus = config, bus

    def spans(self, topic: str) -> dict[Partition, range]:
        """The offsets that each partition of a topic holds.

        Raises:
            ConfigError: the topic does not exist.
        """
        parts = [Partition(topic, number) for number in range(self._bus.partitions(topic))]
        found = self._bus.watermarks(parts)
        return {part: range(found[part].first, found[part].end) for part in parts}

    def offsets_at(self, topic: str, moment: datetime) -> dict[Partition, int]:
        """The first offset of each partition that the broker appended at a moment or later.

        Where there is none, it is the partition's end.
        """
        spans = self.spans(topic)
        moment_ms = int(moment.timestamp() * 1000)
        asked = [TopicPartition(*part, moment_ms) for part in spans]
        consumer = standalone_consumer(self._config, topic)
        try:
            with translate_kafka_errors(f"{topic}: offsets at {moment.isoformat()}"):
                found = consumer.offsets_for_times(asked, timeout=_WAIT)
        finally:
            consumer.close()
        at = {Partition(each.topic, each.partition): each.offset for each in found}
        return {part: at[part] if at[part] >= 0 else span.stop for part, span in spans.items()}

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        """The records at these offsets, those of a partition in order.

        Raises:
            TransientError: not all of them could be read now.
            StopService: the broker refuses access, or an offset was deleted meanwhile.
        """
        return map(as_record, read_spans(self._config, spans))
