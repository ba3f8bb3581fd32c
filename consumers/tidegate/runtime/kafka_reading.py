"""Reading one partition from its beginning to its present end, outside of every group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.runtime.kafka_faults import told_apart

_WAIT: Final = 30.0


def read_partition(
    config: Mapping[str, str | int | bool], topic: str, partition: int
) -> Iterator[Received]:
    """Give every committed message that the partition holds now, oldest first.

    Raises:
        TransientError: the broker can't give all of it now.
    """
    where = TopicPartition(topic, partition, 0)
    consumer = Consumer(
        {
            **config,
            "group.id": topic,  # never joined: librdkafka wants a name
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        with told_apart(f"reading {topic}[{partition}]"):
            _, end = consumer.get_watermark_offsets(where, timeout=_WAIT)
            consumer.assign([where])
        yield from _until(consumer, end)
    finally:
        consumer.close()


def _until(consumer: Consumer, end: int) -> Iterator[Received]:
    """Give all before `end`, which was asked for: a new leader's fetches may end too early."""
    deadline = time.monotonic() + _WAIT
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                deadline = time.monotonic() + _WAIT
                yield message
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                with told_apart(f"reading {message.topic()}"):
                    raise KafkaException(error)
            elif int(message.offset() or 0) >= end:
                return
    raise TransientError(f"the partition could not be read up to its end, offset {end}")
