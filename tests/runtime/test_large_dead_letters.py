"""On a real broker: a message that is hard to set aside does not hold up its partition."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from support.samples import EveryThird, commit, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.events.codec import encode
from tidegate.ops.topics import create_topics
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings

pytestmark = pytest.mark.kafka
MIB = 2**20


@pytest.fixture
def prefix(bootstrap_servers: str, topic_prefix: str) -> str:
    topics = TopicSettings(prefix=topic_prefix, partitions=1)
    create_topics({"bootstrap.servers": bootstrap_servers}, topics)
    return topic_prefix


def set_aside(servers: str, prefix: str, poison: bytes) -> list[Record]:
    """Send poison and an event after it; give the dead letters once both were worked off."""
    sender = Producer(
        {"bootstrap.servers": servers, "compression.type": "gzip", "message.max.bytes": 64 * MIB}
    )
    good = message(commit(0), prefix)
    sender.produce(good.topic, poison, good.key)
    sender.produce(good.topic, good.value, good.key)
    assert sender.flush(20) == 0
    bus = KafkaBus({"bootstrap.servers": servers})
    loop = CoordinatorLoop(EveryThird(), bus, prefix)
    deadline, taken = time.monotonic() + 30, 0
    while taken < 2:
        assert time.monotonic() < deadline
        taken += loop.step(0.2)
    loop.close()
    dead_letters = list(bus.log(Partition(f"{prefix}.dead-letters", 0)))
    bus.close()
    return dead_letters


def test_a_reason_that_quotes_the_whole_message(bootstrap_servers: str, prefix: str) -> None:
    poison = encode(commit(0))[:10] + b"\xc0\x9a\x0c" + b"\xff" * 100_000
    (dead_letter,) = set_aside(bootstrap_servers, prefix, poison)

    assert dead_letter.value == poison
    assert sum(len(content or b"") for _, content in dead_letter.headers) < 100_000


def test_a_message_that_is_large_once_it_is_unpacked(bootstrap_servers: str, prefix: str) -> None:
    (dead_letter,) = set_aside(bootstrap_servers, prefix, b"junk" * 5 * MIB)

    assert len(dead_letter.value or b"") == 20 * MIB
