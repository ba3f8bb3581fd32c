"""Reading partitions outside of any group, so that no committed offset moves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as Received

from tidegate.errors import TransientError
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.errors import require_transient, translate_kafka_errors
from tidegate.runtime.kafka.records import MAX_RECEIVED, Config

_WAIT: Final = 30.0
_READER: Final[Config] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "receive.message.max.bytes": MAX_RECEIVED,
    "log_level": 0,
}
QUICK: Final[Config] = {
    # the end of a partition is reported by an answer with nothing new: at once, not after 500 ms
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 50,
}
"""For consumers that read to an end, and not for those that wait there for more."""
_NOTHING: Final = range(0)


def read_partition(
    config: Config, topic: str, partition: int, *, since_ms: int = 0
) -> Iterator[Received]:
    """Yield every committed message that the partition has now, oldest first.

    With `since_ms`, from the first one that was appended at that time or later.

    Raises:
        TransientError: not all of it could be read now.
        StopService: the broker refuses access.
    """
    part = Partition(topic, partition)
    settings = {**config, **QUICK}
    consumer = standalone_consumer(settings, topic, on_missing_offset="earliest")
    try:
        with translate_kafka_errors(f"reading {topic}[{partition}]"):
            first, end = consumer.get_watermark_offsets(TopicPartition(*part), timeout=_WAIT)
            if since_ms > 0:
                asked = [TopicPartition(*part, since_ms)]
                [found] = consumer.offsets_for_times(asked, timeout=_WAIT)
                first = found.offset if found.offset >= 0 else end  # below 0: nothing is so late
        yield from _read(consumer, {part: range(first, end)})
    finally:
        consumer.close()


def read_spans(config: Config, spans: Mapping[Partition, range]) -> Iterator[Received]:
    """Yield the committed messages at these offsets, those of a partition in order.

    Raises:
        TransientError: not all of them could be read now.
        StopService: the broker refuses access, or an offset was deleted meanwhile.
    """
    if not any(spans.values()):
        return
    consumer = standalone_consumer({**config, **QUICK}, next(iter(spans)).topic)
    try:
        yield from _read(consumer, spans)
    finally:
        consumer.close()


def standalone_consumer(
    config: Config, group: str, *, on_missing_offset: str = "error", committed: bool = True
) -> Consumer:
    """A consumer that never joins its group: librdkafka and access rights ask for a group id.

    Unless `committed`, it gives records of open and aborted transactions too.
    """
    own: Config = {
        "group.id": group,
        "auto.offset.reset": on_missing_offset,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    return Consumer({**config, **_READER, **own})


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
                # compaction may have removed the last records; a new leader's end may be too early
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
            raise TransientError(
                f"{missing}: not read to the end within {_WAIT:.0f} s without progress"
            )


def _is_end(error: KafkaError, doing: str) -> bool:
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return True
    require_transient(error, doing)
    return False
