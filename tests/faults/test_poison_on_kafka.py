"""On a real broker: whatever bytes a message has, its partition goes on after it."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from support.changelogs import OpenPartition
from support.raw_batches import GZIP, ZSTD, batch, produce, record, zstd_bomb
from support.samples import EveryThird, Recorder, commit, message, savepoint_request, task_message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import StopService
from tidegate.events import Event
from tidegate.events.topics import CHANGELOG
from tidegate.ops.topics import create_topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import (
    HEADERS_LEFT_OUT,
    KEY_LEFT_OUT,
    UNKNOWN_SIZE,
    VALUE_LEFT_OUT,
)
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.records import Config, read_in_order, read_spans
from tidegate.service.settings import TopicSettings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
MIB = 2**20
GIB = 2**30
CALLBACK = b'{"commitTime": "20261121120000001", "basePath": "/lake/sales/orders"}'


@pytest.fixture
def prefix(bootstrap_servers: str, topic_prefix: str) -> str:
    topics = TopicSettings(prefix=topic_prefix, partitions=1)
    create_topics({"bootstrap.servers": bootstrap_servers}, topics)
    return topic_prefix


def bomb(*sizes: int) -> bytes:
    """A few kilobytes that unpack to records of so many bytes."""
    return batch(zstd_bomb(b"lake.sales.orders", sizes), len(sizes), ZSTD)


def gzipped(records: bytes) -> bytes:
    return batch(gzip.compress(records, 6), codec=GZIP)


POISON = [
    pytest.param(
        lambda: batch(record(0, b"k", b"v", [(b"\xff\xfe", b"x")])),
        {HEADERS_LEFT_OUT: b"unreadable"},
        id="a header's name that is not UTF-8",
    ),
    pytest.param(
        lambda: gzipped(record(0, b"k", b"v", [(b"h", bytes(4 * MIB))])),
        {"h": bytes(4 * MIB)},
        id="a header of 4 MB from 4 KB",
    ),
    pytest.param(lambda: gzipped(record(0, bytes(4 * MIB), b"v")), {}, id="a key of 4 MB"),
    pytest.param(
        lambda: gzipped(record(0, bytes(140 * MIB), b"v")),
        {KEY_LEFT_OUT: str(140 * MIB).encode(), HEADERS_LEFT_OUT: b"too large"},
        id="a key that no dead letter can hold",
    ),
    pytest.param(
        lambda: bomb(150 * MIB),
        {VALUE_LEFT_OUT: str(150 * MIB).encode()},
        id="a value of 150 MB from 5 KB",
    ),
    pytest.param(
        lambda: bomb(GIB),
        {VALUE_LEFT_OUT: UNKNOWN_SIZE, KEY_LEFT_OUT: UNKNOWN_SIZE},
        id="a value of 1 GB from 32 KB",
    ),
]


def work_off(loop: CoordinatorLoop | ExecutorLoop, records: int) -> None:
    deadline, taken = time.monotonic() + 120, 0
    while taken < records or (isinstance(loop, ExecutorLoop) and loop.pending):
        assert time.monotonic() < deadline, f"{taken} of {records} records"
        taken += loop.step(0.2)


def send(bus: KafkaBus, *events: Event, prefix: str) -> None:
    bus.send([message(event, prefix) for event in events])


def dead_letters_on(bus: KafkaBus, prefix: str) -> list[Record]:
    return list(bus.log(Partition(f"{prefix}.dead-letters", 0)))


def place_of(written: Record) -> tuple[str, int, int]:
    headers = {name: (content or b"").decode() for name, content in written.headers}
    number, offset = headers["x-original-partition"], headers["x-original-offset"]
    return headers["x-original-topic"], int(number), int(offset)


@pytest.mark.parametrize(("poison", "expected"), POISON)
def test_a_decider_goes_on_after_it_and_the_dead_letter_names_its_place(
    poison: Callable[[], bytes], expected: Mapping[str, bytes], bootstrap_servers: str, prefix: str
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    send(bus, commit(0), commit(1), prefix=prefix)
    at = produce(bootstrap_servers, f"{prefix}.commits", 0, poison())
    send(bus, commit(2), prefix=prefix)
    loop = CoordinatorLoop(EveryThird(), bus, prefix)
    work_off(loop, 4)
    loop.close()

    [written] = dead_letters_on(bus, prefix)
    assert place_of(written) == (f"{prefix}.commits", 0, at)
    assert expected.items() <= dict(written.headers).items()
    assert len(list(bus.log(Partition(f"{prefix}.outcomes", 0)))) == 1
    bus.close()


@pytest.mark.parametrize(("poison", "expected"), POISON)
def test_an_executor_goes_on_after_it_also_when_it_starts_there(
    poison: Callable[[], bytes], expected: Mapping[str, bytes], bootstrap_servers: str, prefix: str
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    at = produce(bootstrap_servers, f"{prefix}.tasks", 0, poison())
    bus.send([task_message(savepoint_request(0), prefix)])
    recorder = Recorder()
    loop = ExecutorLoop(recorder, bus, prefix)
    work_off(loop, 2)
    loop.close()

    [written] = dead_letters_on(bus, prefix)
    assert place_of(written) == (f"{prefix}.tasks", 0, at)
    assert expected.items() <= dict(written.headers).items()
    assert len(recorder.asked) == 1
    bus.close()


def test_of_a_batch_that_can_not_be_unpacked_each_record_is_dead_lettered_also_after_a_restart(
    bootstrap_servers: str, prefix: str
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    at = produce(bootstrap_servers, f"{prefix}.commits", 0, bomb(GIB, GIB, GIB))
    send(bus, *(commit(n) for n in range(3)), prefix=prefix)
    for records in (2, 4):
        loop = CoordinatorLoop(EveryThird(), bus, prefix)
        work_off(loop, records)
        loop.close()

    assert [place_of(dead_letter)[2] for dead_letter in dead_letters_on(bus, prefix)] == [
        at,
        at + 1,
        at + 2,
    ]
    assert len(list(bus.log(Partition(f"{prefix}.outcomes", 0)))) == 1
    bus.close()


@pytest.mark.parametrize("read", [read_spans, read_in_order])
def test_who_reads_outside_of_a_group_goes_on_after_it_too(
    read: Callable[[Config, Mapping[Partition, range]], Iterator[Record]],
    bootstrap_servers: str,
    prefix: str,
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    outcomes = Partition(f"{prefix}.outcomes", 0)
    produce(bootstrap_servers, outcomes.topic, 0, bomb(GIB, GIB))
    bus.send([Message(outcomes.topic, b"k", b"v")])
    at = produce(bootstrap_servers, outcomes.topic, 0, bomb(GIB))

    found = list(read({"bootstrap.servers": bootstrap_servers}, bus.spans(outcomes.topic)))
    assert [item.offset for item in found] == [0, 1, 2, at]
    assert [bool(item.unreadable) for item in found] == [True, True, False, True]
    bus.close()


def test_a_changelog_that_can_not_be_read_stops_its_service(
    bootstrap_servers: str, prefix: str
) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    topic = CHANGELOG.name(prefix)
    produce(bootstrap_servers, topic, 0, bomb(GIB))

    with pytest.raises(StopService, match="Invalid compressed data"):
        OpenPartition(bus, topic)
    bus.close()
