"""One suite for both buses: what the loops rely on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from support.changelogs import OpenPartition
from support.memory_bus import MemoryBus
from tidegate.errors import ConfigError, OffsetGapError, StopService
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Changelog, ChangelogRecord, Partition, Record, Subscription
from tidegate.runtime.kafka.bus import KafkaBus

Topics = tuple[str, str]
QUICK = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}


def group(topics: Topics) -> str:
    return topics[0].replace(".a", ".group")


class Log:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.held: set[Partition] = set()
        self.calls: list[str] = []

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        self.held |= set(starts)
        self.calls.append("assigned")

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.held -= set(partitions)
        self.calls.append("revoked")

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.held -= set(partitions)
        self.calls.append("lost")


@pytest.fixture
def topics() -> Topics:
    run = uuid.uuid4().hex[:8]
    return f"{run}.a", f"{run}.b"


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def bus(request: pytest.FixtureRequest, topics: Topics) -> Iterator[Bus]:
    if request.param == "memory":
        yield MemoryBus(topics, partitions=3)
        return
    servers = str(request.getfixturevalue("bootstrap_servers"))
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, 3, 1) for name in topics]).values():
        created.result(60)
    kafka = KafkaBus({"bootstrap.servers": servers}, QUICK)
    yield kafka
    kafka.close()


def read(subscription: Subscription, enough: Callable[[list[Record]], bool]) -> list[Record]:
    taken: list[Record] = []
    deadline = time.monotonic() + 60
    while not enough(taken):
        assert time.monotonic() < deadline, f"only {taken} arrived"
        taken += subscription.poll(100, 0.1)
    return taken


def messages(topic: str, count: int) -> list[Message]:
    return [
        Message(topic, f"key-{n}".encode(), f"{n}".encode(), (("h", b"1"),)) for n in range(count)
    ]


def test_a_new_group_reads_a_topic_from_its_beginning(bus: Bus, topics: Topics) -> None:
    bus.send(messages(topics[0], 20))
    subscription = bus.subscribe(group(topics), topics, Log())
    records = read(subscription, lambda taken: len(taken) >= 20)
    subscription.close()

    assert sorted(int(record.value or b"") for record in records) == list(range(20))
    assert {record.headers for record in records} == {(("h", b"1"),)}
    now = time.time() * 1000
    assert all(now - 60_000 < record.timestamp_ms < now + 60_000 for record in records)


def test_headers_come_as_they_were_sent_a_null_among_them(bus: Bus, topics: Topics) -> None:
    sent = (("a", b"1"), ("none", None), ("a", b"2"))
    bus.send([Message(topics[0], b"k", b"v", sent, 0)])
    (record,) = bus.log(Partition(topics[0], 0))

    assert record.headers == sent
    assert tuple(record.headers[1:]) == sent[1:]
    assert len(record.headers) == len(sent)


def test_the_same_key_has_the_same_partition_number_on_every_topic(
    bus: Bus, topics: Topics
) -> None:
    bus.send(messages(topics[0], 10) + messages(topics[1], 10))
    subscription = bus.subscribe(group(topics), topics, Log())
    records = read(subscription, lambda taken: len(taken) >= 20)
    subscription.close()

    places = {(record.key, record.partition.number) for record in records}
    assert len(places) == 10


def test_a_group_goes_on_at_the_committed_offset(bus: Bus, topics: Topics) -> None:
    bus.send([Message(topics[0], b"k", f"{n}".encode(), (), 1) for n in range(5)])
    first = bus.subscribe(group(topics), topics[:1], Log())
    read(first, lambda taken: len(taken) >= 5)
    first.commit({Partition(topics[0], 1): 3}, wait=True)
    first.close()

    second = bus.subscribe(group(topics), topics[:1], Log())
    records = read(second, lambda taken: len(taken) >= 2)
    second.close()
    assert [record.offset for record in records] == [3, 4]


def test_metadata_is_kept_with_its_offset_by_the_owner_of_the_partition(
    bus: Bus, topics: Topics
) -> None:
    part = Partition(topics[0], 1)
    bus.send([Message(topics[0], b"k", b"v", (), 1)])
    first = bus.subscribe(group(topics), topics[:1], Log())
    read(first, lambda taken: len(taken) >= 1)
    first.commit({part: 0}, {part: "..x"}, wait=True)
    first.close()

    for _ in range(2):  # the second and third owner: being assigned must not lose it
        later = bus.subscribe(group(topics), topics[:1], Log())
        read(later, lambda taken: len(taken) >= 1)
        assert (
            later.committed_metadata(part),
            later.committed_metadata(Partition(topics[0], 2)),
        ) == ("..x", "")
        later.close()


def test_an_offset_that_the_topic_does_not_have_is_an_error_and_no_jump(
    bus: Bus, topics: Topics
) -> None:
    bus.send([Message(topics[0], b"k", b"v", (), 1)])
    first = bus.subscribe(group(topics), topics[:1], Log())
    read(first, lambda taken: len(taken) >= 1)
    first.commit({Partition(topics[0], 1): 700}, wait=True)
    first.close()

    second = bus.subscribe(group(topics), topics[:1], Log())
    with pytest.raises(OffsetGapError, match="700"):
        read(second, lambda _: False)
    second.close()


def test_partition_n_of_every_topic_belongs_to_one_member(bus: Bus, topics: Topics) -> None:
    one, other = Log(), Log()
    first = bus.subscribe(group(topics), topics, one)
    second = bus.subscribe(group(topics), topics, other)
    deadline = time.monotonic() + 60
    while len(one.held) + len(other.held) < 6 or not other.held or not one.held:
        assert time.monotonic() < deadline
        first.poll(1, 0.1)
        second.poll(1, 0.1)

    for log in (one, other):
        numbers = {partition.number for partition in log.held}
        assert log.held == {Partition(topic, n) for topic in topics for n in numbers}
    first.close()
    second.close()
    assert one.held == other.held == set()


def test_a_paused_partition_gives_nothing_until_it_is_resumed(bus: Bus, topics: Topics) -> None:
    log = Log()
    subscription = bus.subscribe(group(topics), topics[:1], log)
    deadline = time.monotonic() + 60
    while len(log.held) < 3:
        assert time.monotonic() < deadline
        subscription.poll(1, 0.1)
    subscription.pause([Partition(topics[0], 1)])
    bus.send([Message(topics[0], b"k", b"1", (), 1), Message(topics[0], b"k", b"2", (), 2)])
    early = read(subscription, lambda taken: len(taken) >= 1)
    early += subscription.poll(10, 0.3)
    subscription.resume([Partition(topics[0], 1)])
    late = read(subscription, lambda taken: len(taken) >= 1)
    subscription.close()

    assert [record.value for record in early] == [b"2"]
    assert [record.value for record in late] == [b"1"]


def test_a_partition_can_be_read_whole_outside_of_every_group(bus: Bus, topics: Topics) -> None:
    bus.send([Message(topics[0], b"k", f"{n}".encode(), (), n % 2) for n in range(6)])

    assert [record.value for record in bus.log(Partition(topics[0], 1))] == [b"1", b"3", b"5"]
    assert list(bus.log(Partition(topics[1], 0))) == []


def test_a_partition_that_was_paused_is_read_again_after_a_rebalance(
    bus: Bus, topics: Topics
) -> None:
    one, other = Log(), Log()
    first = bus.subscribe(group(topics), topics[:1], one)
    deadline = time.monotonic() + 60
    while len(one.held) < 3:
        assert time.monotonic() < deadline
        first.poll(1, 0.1)
    first.pause(one.held)
    second = bus.subscribe(group(topics), topics[:1], other)
    while not other.held or len(one.held) + len(other.held) < 3:
        assert time.monotonic() < deadline
        first.poll(1, 0.1)
        second.poll(1, 0.1)
    second.close()
    bus.send([Message(topics[0], b"k", b"v", (), number) for number in range(3)])
    # what was read just before the rebalance and not committed is read again: that is allowed
    records = read(first, lambda taken: {record.partition.number for record in taken} >= {0, 1, 2})
    first.close()

    assert {record.partition.number for record in records} == {0, 1, 2}


def test_a_changelog_gives_back_what_was_written_in_order(bus: Bus, topics: Topics) -> None:
    memory = OpenPartition(bus, topics[0], 2)
    memory.write([(b"a", b"1"), (b"b", b"2")])
    memory.write([(b"a", None)])
    again = OpenPartition(bus, topics[0], 2)

    assert list(again.read()) == [(b"a", b"1"), (b"b", b"2"), (b"a", None)]
    assert list(OpenPartition(bus, topics[0], 0).read()) == []


def test_who_takes_a_changelog_shuts_out_its_earlier_holder(bus: Bus, topics: Topics) -> None:
    old = OpenPartition(bus, topics[0], 0)
    old.write([(b"a", b"old")])
    new = OpenPartition(bus, topics[0], 0)

    with pytest.raises(StopService, match="another process"):
        old.write([(b"a", b"zombie")])
    new.write([(b"a", b"new")])
    assert list(OpenPartition(bus, topics[0], 0).read()) == [(b"a", b"old"), (b"a", b"new")]


def acquired(log: Changelog, kept: Sequence[int] = ()) -> dict[int, list[ChangelogRecord]]:
    found: dict[int, list[ChangelogRecord]] = {}
    for number, records in log.acquire([0, 1, 2], kept):
        found.setdefault(number, []).extend(records)
    return found


def test_of_a_changelog_that_comes_back_only_what_another_has_written_to_is_read_again(
    bus: Bus, topics: Topics
) -> None:
    log = bus.changelog(topics[0])
    assert acquired(log) == {}
    log.write({number: [(b"a", b"1")] for number in range(3)})
    assert acquired(log, kept=[0, 1, 2]) == {}
    log.write({0: [(b"b", b"2")]})
    OpenPartition(bus, topics[0], 1).write([(b"c", b"3")])

    assert acquired(log, kept=[0, 1]) == {1: [(b"a", b"1"), (b"c", b"3")], 2: [(b"a", b"1")]}
    log.write({1: [(b"d", b"4")]})
    assert OpenPartition(bus, topics[0], 1).read()[-1] == (b"d", b"4")


def test_who_shuts_out_one_partition_stops_a_write_to_several(bus: Bus, topics: Topics) -> None:
    log = bus.changelog(topics[0])
    acquired(log)
    OpenPartition(bus, topics[0], 2)

    with pytest.raises(StopService, match="another process"):
        log.write({number: [(b"a", b"1")] for number in range(3)})
    assert acquired(bus.changelog(topics[0])) == {}


def test_a_topic_that_is_not_there_is_a_configuration_error(bus: Bus) -> None:
    with pytest.raises(ConfigError, match="no-such-topic"):
        bus.partitions("no-such-topic")
