"""Topics read from the side: outside of every group, so that nobody's offsets move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidegate.errors import StopService
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.kafka_faults import passes, told_apart
from tidegate.runtime.kafka_records import Config, as_record

_WAIT: Final = 30.0
_READER: Final[Config] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "log_level": 0,
}


class TopicLog:
    """Reads what topics hold at the moment of the call; what comes later is not waited for."""

    def __init__(self, config: Config, bus: Bus) -> None:
        """Take librdkafka's settings, and the bus that knows what the topics hold."""
        self._config, self._bus = {**config, **_READER}, bus

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
        consumer = self._consumer(topic)
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
            StopService: the broker refuses us, or an offset is gone meanwhile.
        """
        left = {part: span for part, span in spans.items() if span}
        if not left:
            return
        consumer = self._consumer(next(iter(left)).topic)
        try:
            consumer.assign([TopicPartition(*part, span.start) for part, span in left.items()])
            while left:
                yield from self._batch(consumer, left)
        finally:
            consumer.close()

    def _consumer(self, topic: str) -> Consumer:
        # the group is never joined: librdkafka and access rights want a name
        return Consumer({**self._config, "group.id": topic})

    @staticmethod
    def _batch(consumer: Consumer, left: dict[Partition, range]) -> Iterator[Record]:
        for message in consumer.consume(500, 0.2):
            error = message.error()
            part = Partition(str(message.topic()), int(message.partition() or 0))
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                left.pop(part, None)
            elif error is not None and not passes(error):
                raise StopService(f"reading {part.topic}[{part.number}]: {error.str()}")
            elif error is None and part in left:
                record = as_record(message)
                if record.offset in left[part]:
                    yield record
                if record.offset >= left[part].stop - 1:
                    del left[part]
