"""A changelog on a real broker: what can't be written leaves nothing, and the next write works."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.kafka import create_topic
from tidegate.errors import StopService
from tidegate.events.topics import changelog
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka


@pytest.fixture
def bus(bootstrap_servers: str, topic_prefix: str) -> Iterator[KafkaBus]:
    create_topic(bootstrap_servers, f"{topic_prefix}.changelog")
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    yield bus
    bus.close()


def test_a_write_that_fails_leaves_nothing_and_the_next_holder_goes_on(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    memory = bus.changelog(topic, 0)
    memory.write([(b"a", b"1")])

    with pytest.raises(StopService, match="Message size too large"):
        memory.write([(b"a", b"2"), (b"b", os.urandom(2_000_000))])
    bus.changelog(topic, 0).write([(b"c", b"3")])

    assert list(bus.changelog(topic, 0).read()) == [(b"a", b"1"), (b"c", b"3")]


def test_the_state_of_a_table_may_be_far_larger_than_a_message(
    bus: KafkaBus, bootstrap_servers: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.large"
    limit = changelog("reader-gate").settings()["max.message.bytes"]
    create_topic(bootstrap_servers, topic, max_message_bytes=limit)
    waiting = b"".join(b'{"lock_id": %d, "owner": "ana@notebook"}' % n for n in range(200_000))
    bus.changelog(topic, 0).write([(b"a.b.c", waiting)])

    assert list(bus.changelog(topic, 0).read()) == [(b"a.b.c", waiting)]


def test_more_tables_than_the_clients_queue_holds_are_written_at_once(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    tables = [(b"a.b.t%d" % n, b"{}") for n in range(120_000)]
    bus.changelog(topic, 0).write(tables)

    assert list(bus.changelog(topic, 0).read()) == tables
