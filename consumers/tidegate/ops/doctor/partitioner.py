"""Check whether this machine's Kafka client chooses the same partitions as the Java client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Message, Producer

from tidegate.errors import TransientError
from tidegate.events.topics import PARTITIONER
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.publisher.delivery import DEFAULTS

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
