"""A changelog on a real broker: what can't be written leaves nothing, and the next write works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kafka import create_topic
from tidegate.errors import StopService
from tidegate.runtime.kafka import KafkaBus

pytestmark = pytest.mark.kafka


@pytest.fixture
def bus(bootstrap_servers: str, topic_prefix: str) -> Iterator[KafkaBus]:
    create_topic(bootstrap_servers, f"{topic_prefix}.changelog")
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    yield bus
    bus.close()


def test_a_write_that_fails_leaves_nothing_and_the_next_one_works(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    memory = bus.changelog(topic, 0)
    memory.write([(b"a", b"1")])

    with pytest.raises(StopService, match="Message size too large"):
        memory.write([(b"a", b"2"), (b"b", b"x" * 2_000_000)])
    memory.write([(b"c", b"3")])

    assert list(bus.changelog(topic, 0).read()) == [(b"a", b"1"), (b"c", b"3")]
