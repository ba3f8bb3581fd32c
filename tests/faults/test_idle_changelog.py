"""A changelog without writes for longer than the broker remembers its transactional id."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.changelogs import OpenPartition
from support.kafka import create_topic
from support.kafka_node import KafkaNode
from tidegate.errors import StopService
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
IDLE_SECONDS = 6.0
FORGETFUL = {
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBus]:
    with KafkaNode(tmp_path_factory.mktemp("idle"), FORGETFUL) as broker:
        create_topic(broker.bootstrap_servers, "memory")
        bus = KafkaBus({"bootstrap.servers": broker.bootstrap_servers})
        yield bus
        bus.close()


def test_who_was_idle_for_long_writes_on_unless_another_has_written_since(bus: KafkaBus) -> None:
    alone = OpenPartition(bus, "memory", 0)
    alone.write([(b"a", b"1")])
    time.sleep(IDLE_SECONDS)  # that time passes is the fault

    alone.write([(b"a", b"2")])
    assert list(OpenPartition(bus, "memory", 0).read()) == [(b"a", b"1"), (b"a", b"2")]

    old = OpenPartition(bus, "memory", 0)
    time.sleep(IDLE_SECONDS)
    new = OpenPartition(bus, "memory", 0)
    new.write([(b"a", b"3")])
    with pytest.raises(StopService, match="another process has opened"):
        old.write([(b"a", b"zombie")])
    read = list(OpenPartition(bus, "memory", 0).read())
    assert read == [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]
