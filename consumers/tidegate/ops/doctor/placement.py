"""Whether events are on the partition of their table, wherever they were published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Message, Producer

from tidegate.errors import TransientError
from tidegate.events import table_identity
from tidegate.events.keys import partition_of
from tidegate.events.topics import PARTITIONER, TOPICS, Topic
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.ops.doctor.offsets import offset_ranges
from tidegate.publisher.delivery import DEFAULTS
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.partition_reader import read_spans

_LAST: Final = 1000
"""Records that are checked at the end of each partition."""


def check_placement(broker: Broker, topic: Topic) -> Finding:
    """Whether the newest events of a topic are on their partitions."""
    name = topic.name(broker.topics.prefix)
    spans = {
        part: range(max(span.start, span.stop - _LAST), span.stop)
        for part, span in offset_ranges(broker.admin, [name]).items()
    }
    if not spans:
        return Finding(f"placement {topic.suffix}", Status.SKIPPED, f"{name} does not exist")
    records = read_spans(broker.connection, spans)
    return compare_placement(topic.suffix, records, len(spans))


def compare_placement(topic: str, records: Iterable[Record], partitions: int) -> Finding:
    """Compare the partition of each record with that of its key. Pure.

    Args:
        topic: The topic's name without the prefix.
        records: Some of its records.
        partitions: How many partitions it has.
    """
    check, seen, wrong = f"placement {topic}", 0, 0
    example = ""
    for record in records:
        if (table := _table(record)) is None:
            continue
        seen += 1
        home = partition_of(table, partitions)
        if home != record.partition.number:
            wrong += 1
            at = f"{record.partition.number}/{record.offset}"
            example = example or f"{table} belongs on partition {home}, but is at {at}"
    if not wrong:
        return Finding(check, Status.OK, f"the newest {seen} events are on their partitions")
    return Finding(
        check,
        Status.FAIL,
        f"{wrong} of the newest {seen} events are on another partition: {example}",
        "set partitioner=murmur2_random (librdkafka) or the default one (Java) for their writer;"
        " services dead-letter such events: redrive them",
    )


def _table(record: Record) -> str | None:
    """The table named by the key; None if it is not a table's name."""
    try:
        name = (record.key or b"").decode()
        return name if table_identity(name) == name else None
    except ValueError:
        return None


INPUT_TOPICS: Final = tuple(
    topic for topic in TOPICS if topic.events and topic.suffix != "outcomes"
)
"""Topics whose events services expect on the table's partition."""


MURMUR2: Final[Mapping[str, int]] = {
    "21": -973932308,
    "foobar": -790332482,
    "abc": 479470107,
    "a-little-bit-longer-string": -1486304829,
    "lake.sales.orders": -158059582,
    "lake.sales.na\u00efve": -860538769,
    "\u6e56.\u9500\u552e.\u8ba2\u5355": -684403692,
    "lake.sales.order_lines_2026": 947287456,
}
"""Kafka's own hashes of some keys, as its Java client computes them."""
_TOPIC: Final = "partitioner"
_POSITIVE: Final = 0x7FFFFFFF


def check_partitioner(partitioner: object = PARTITIONER) -> Finding:
    """Send known keys to librdkafka's in-process broker, and compare their partitions.

    Args:
        partitioner: The client setting `partitioner`.
    """
    name = str(partitioner)
    wrong = [
        f"{key} on {found}, not {MURMUR2[key] & _POSITIVE} % {count}"
        for key, (found, count) in _placed(name).items()
        if found != (MURMUR2[key] & _POSITIVE) % count
    ]
    if wrong:
        seen = f"{name} puts {'; '.join(wrong)}"
        advice = f"remove partitioner from [kafka]: JVM writers use {PARTITIONER}"
        return Finding(_TOPIC, Status.FAIL, seen, advice)
    seen = f"{name} puts {len(MURMUR2)} known keys where Kafka's Java client does"
    return Finding(_TOPIC, Status.OK, seen)


def _placed(partitioner: str) -> dict[str, tuple[int, int]]:
    """The partition of each key, and the number of partitions."""
    inside = {
        "test.mock.num.brokers": 1,
        "partitioner": partitioner,
        "allow.auto.create.topics": True,
    }
    producer = Producer({**DEFAULTS, **inside})
    placed: dict[str, int] = {}

    def delivered(_error: object, message: Message) -> None:
        placed[(message.key() or b"").decode()] = int(message.partition() or 0)

    for key in MURMUR2:
        producer.produce(_TOPIC, b"", key=key.encode(), on_delivery=delivered)
    if producer.flush(5):
        raise TransientError("librdkafka's in-process broker did not accept the keys")
    count = len(producer.list_topics(_TOPIC, timeout=5).topics[_TOPIC].partitions)
    return {key: (number, count) for key, number in placed.items()}
