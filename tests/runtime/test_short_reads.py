"""Reading the few records that are new costs no fixed wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.publisher import Message
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.records import PartitionReader, read_in_order

pytestmark = pytest.mark.kafka
TRIES = 200
CLIENTS_WAIT = 0.05
"""Seconds: the shortest time for which a reader asks the client for a thousand records."""


@pytest.fixture
def topic(bootstrap_servers: str, topic_prefix: str) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic_prefix, 1, 1)])[topic_prefix].result(60)
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    bus.send([Message(topic_prefix, b"key", b"value", ())])
    yield topic_prefix
    bus.close()


def read_spans(servers: str, topic: str) -> int:
    bus = KafkaBus({"bootstrap.servers": servers})
    return len(list(bus.read({Partition(topic, 0): range(1)})))


def read_merged(servers: str, topic: str) -> int:
    spans = {Partition(topic, 0): range(1)}
    return len(list(read_in_order({"bootstrap.servers": servers}, spans)))


def read_a_changelog(servers: str, topic: str) -> int:
    part = Partition(topic, 0)
    with PartitionReader({"bootstrap.servers": servers}, {part: 0}) as reader:
        return len(list(reader.read({part: 1})))


@pytest.mark.parametrize("read", [read_spans, read_merged, read_a_changelog])
def test_one_record_is_not_waited_for_as_long_as_a_thousand(
    bootstrap_servers: str, topic: str, read: Callable[[str, str], int]
) -> None:
    """The client's call for many waits for all of its time; the fastest try counts."""
    took: list[float] = []
    for _ in range(TRIES):
        began = time.perf_counter()
        assert read(bootstrap_servers, topic) == 1
        took.append(time.perf_counter() - began)
        if took[-1] < CLIENTS_WAIT:
            return
    raise AssertionError(took)


def test_spans_of_several_partitions_are_read_each_in_order(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    name = f"{topic_prefix}.spans"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    bus.send([Message(name, b"k", f"{n}".encode(), (), n % 2) for n in range(20)])
    zero, one, two = (Partition(name, number) for number in range(3))
    records = list(bus.read({zero: range(2, 5), one: range(9, 10), two: range(0)}))

    read = [(record.offset, record.value) for record in records if record.partition == zero]
    assert read == [(2, b"4"), (3, b"6"), (4, b"8")]
    assert [record.value for record in records if record.partition == one] == [b"19"]
    assert list(bus.read({zero: range(0)})) == []
    bus.close()
