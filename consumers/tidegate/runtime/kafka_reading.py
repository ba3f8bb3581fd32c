"""Reading partitions from the side, outside of every group, so that nobody's offsets move."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka_faults import passes, told_apart
from tidegate.runtime.kafka_records import Config

_WAIT: Final = 30.0
_READER: Final[Config] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "log_level": 0,
}
_NOTHING: Final = range(0)


def read_partition(config: Config, topic: str, partition: int) -> Iterator[Received]:
    """Give every committed message that the partition holds now, oldest first.

    Raises:
        TransientError: the broker can't give all of it now.
        StopService: the broker refuses us.
    """
    part = Partition(topic, partition)
    consumer = side_reader(config, topic, gone="earliest")
    try:
        with told_apart(f"reading {topic}[{partition}]"):
            first, end = consumer.get_watermark_offsets(TopicPartition(*part), timeout=_WAIT)
        yield from _read(consumer, {part: range(first, end)})
    finally:
        consumer.close()


def read_spans(config: Config, spans: Mapping[Partition, range]) -> Iterator[Received]:
    """Give the committed messages at these offsets, those of a partition in order.

    Raises:
        TransientError: the broker can't give all of them now.
        StopService: the broker refuses us, or an offset is gone meanwhile.
    """
    if not any(spans.values()):
        return
    consumer = side_reader(config, next(iter(spans)).topic)
    try:
        yield from _read(consumer, spans)
    finally:
        consumer.close()


def side_reader(config: Config, group: str, *, gone: str = "error") -> Consumer:
    """A consumer of no group: it is never joined, but librdkafka and access rights want a name."""
    return Consumer({**config, **_READER, "group.id": group, "auto.offset.reset": gone})


def _read(consumer: Consumer, spans: Mapping[Partition, range]) -> Iterator[Received]:
    left: dict[tuple[str | None, int | None], range] = {
        (part.topic, part.number): span for part, span in spans.items() if span
    }
    consumer.assign([TopicPartition(*part, span.start) for part, span in spans.items() if span])
    deadline = time.monotonic() + _WAIT
    while left:
        for message in consumer.consume(1000, 0.1):
            part = message.topic(), message.partition()
            span, at = left.get(part, _NOTHING), int(message.offset() or 0)
            if (error := message.error()) is not None:
                # compaction may have taken the last records; a new leader's end may come too early
                over = _is_end(error, f"reading {part[0]}[{part[1]}]") and at >= span.stop
            else:
                over = at >= span.stop - 1
                if at in span:
                    yield message
                    deadline = time.monotonic() + _WAIT
            if over:
                left.pop(part, None)
        if left and time.monotonic() > deadline:
            missing = ", ".join(f"{part[0]}[{part[1]}]" for part in left)
            raise TransientError(f"{missing} could not be read to the end")


def _is_end(error: KafkaError, doing: str) -> bool:
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return True
    if not passes(error):
        with told_apart(doing):
            raise KafkaException(error)
    return False
