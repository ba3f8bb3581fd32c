"""A changelog on a real broker: what can't be written leaves nothing, and the next write works."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from support.changelogs import OpenPartition
from support.kafka import create_topic
from support.waiting import wait_for
from tidegate.errors import StopService, TransientError
from tidegate.events.topics import CHANGELOG
from tidegate.runtime.bus import ChangelogRecord, Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.changelog import SIGNATURE, KafkaChangelog
from tidegate.runtime.kafka.fenced_producer import FORGOTTEN, FencedProducer
from tidegate.runtime.retry import RetryPolicy

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
    memory = OpenPartition(bus, topic, 0)
    memory.write([(b"a", b"1")])

    with pytest.raises(StopService, match="Message size too large"):
        memory.write([(b"a", b"2"), (b"b", os.urandom(2_000_000))])
    OpenPartition(bus, topic, 0).write([(b"c", b"3")])

    assert list(OpenPartition(bus, topic, 0).read()) == [(b"a", b"1"), (b"c", b"3")]


def test_the_state_of_a_table_may_be_far_larger_than_a_message(
    bus: KafkaBus, bootstrap_servers: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.large"
    limit = CHANGELOG.settings()["max.message.bytes"]
    create_topic(bootstrap_servers, topic, max_message_bytes=limit)
    waiting = b"".join(b'{"lock_id": %d, "owner": "ana@notebook"}' % n for n in range(100_000))
    OpenPartition(bus, topic, 0).write([(b"a.b.c", waiting)])

    assert list(OpenPartition(bus, topic, 0).read()) == [(b"a.b.c", waiting)]


def test_more_tables_than_the_clients_queue_holds_are_written_at_once(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    tables = [(b"a.b.t%d" % n, b"{}") for n in range(120_000)]
    OpenPartition(bus, topic, 0).write(tables)

    assert list(OpenPartition(bus, topic, 0).read()) == tables


def test_a_successor_does_not_wait_for_a_transaction_that_a_killed_owner_left_open(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    killed = OpenPartition(bus, topic)
    killed.write([(b"a", b"1")])
    producer = killed.producer
    producer.begin_transaction()
    producer.produce(topic, b"2", b"a", 0)
    producer.flush(30)

    assert OpenPartition(bus, topic).read() == [(b"a", b"1")]
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert OpenPartition(bus, topic).read() == [(b"a", b"1")]


def test_a_successor_does_not_wait_for_a_process_that_was_killed_while_it_signed(
    bus: KafkaBus, bootstrap_servers: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    OpenPartition(bus, topic).write([(b"a", b"1")])
    owner = f"{topic}-killed"
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": owner})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"host 1", SIGNATURE + owner.encode(), 0)
    producer.flush(30)

    assert OpenPartition(bus, topic).read() == [(b"a", b"1")]  # not only after its time-out
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def test_a_transaction_that_the_broker_does_not_end_is_named_with_the_remedy(
    bus: KafkaBus, bootstrap_servers: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an owner whose state the broker has lost: no fence reaches it."""
    topic = f"{topic_prefix}.changelog"
    OpenPartition(bus, topic).write([(b"a", b"1")])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"2", b"a", 0)
    producer.flush(30)
    monkeypatch.setattr("tidegate.runtime.kafka.records._WAIT", 1.0)

    with pytest.raises(
        TransientError, match=r"hides \S+\[0\] from offset \d+ on: .*docs/runbook.md"
    ):
        OpenPartition(bus, topic)
    producer.abort_transaction(30)
    assert OpenPartition(bus, topic).read() == [(b"a", b"1")]


def test_of_many_owners_only_the_last_ones_signature_is_left(
    bus: KafkaBus, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.changelog"
    for _ in range(4):
        OpenPartition(bus, topic)

    def signatures() -> set[bytes]:
        left: set[bytes] = set()
        for record in bus.log(Partition(topic, 0)):
            assert (record.key or b"").startswith(SIGNATURE)
            (left.discard if record.value is None else left.add)(record.key or b"")
        return left

    # a broker writes the marker of a committed transaction a moment later
    wait_for("the last owner's signature alone", lambda: len(signatures()) == 1)


def test_a_changelog_that_was_cut_off_below_what_is_known_of_it_is_read_whole(
    bus: KafkaBus, topic_prefix: str
) -> None:
    log = bus.changelog(f"{topic_prefix}.changelog")
    assert list(log.acquire([0])) == []
    log.write({0: [(b"a", b"1")]})
    log._ends[0] = 1_000  # as after an election that lost records

    assert list(log.acquire([0], kept=[0])) == [(0, []), (0, [(b"a", b"1")])]


def test_an_owner_that_comes_back_fences_one_that_signed_before_its_last_write(
    bus: KafkaBus, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote last hides from it whatever stands before: it knows that part already."""
    owner, paused = (bus.changelog(f"{topic_prefix}.changelog") for _ in range(2))
    assert isinstance(paused, KafkaChangelog)
    list(owner.acquire([0]))
    fence = paused._fence

    def fence_late(own: Mapping[int, int]) -> dict[int, list[ChangelogRecord]]:
        owner.write({0: [(b"a", b"1")]})
        monkeypatch.setattr(paused, "_fence", fence)
        return fence(own)

    monkeypatch.setattr(paused, "_fence", fence_late)
    retries = RetryPolicy(3, 0.001, 0.001)
    assert retries.call(lambda: list(paused.acquire([0]))) == [(0, [(b"a", b"1")])]
    owner.close()
    list(owner.acquire([0], kept=[0]))

    with pytest.raises(StopService, match="another process"):
        paused.write({0: [(b"a", b"zombie")]})
    owner.write({0: [(b"a", b"2")]})
    assert OpenPartition(bus, f"{topic_prefix}.changelog").read()[-1] == (b"a", b"2")


def test_an_owner_whose_signature_a_later_one_has_erased_gives_up_and_does_not_sign_again(
    bus: KafkaBus, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = bus.changelog(f"{topic_prefix}.changelog")
    assert isinstance(paused, KafkaChangelog)
    fence, later = paused._fence, list[OpenPartition]()

    def fence_late(own: Mapping[int, int]) -> dict[int, list[ChangelogRecord]]:
        later.append(OpenPartition(bus, f"{topic_prefix}.changelog"))
        return fence(own)

    monkeypatch.setattr(paused, "_fence", fence_late)
    with pytest.raises(StopService, match="another process"):
        list(paused.acquire([0]))
    later[0].write([(b"a", b"1")])


@pytest.mark.parametrize("signed", [False, True], ids=["before it signed", "when it had signed"])
def test_an_owner_that_was_forgotten_signs_again_until_the_broker_answers(
    bus: KafkaBus, topic_prefix: str, monkeypatch: pytest.MonkeyPatch, *, signed: bool
) -> None:
    log = bus.changelog(f"{topic_prefix}.changelog")
    assert isinstance(log, KafkaChangelog)
    list(log.acquire([0]))
    log.write({0: [(b"a", b"1")]})
    write, sign = FencedProducer.write, log._sign

    def forgotten(*_: object) -> None:
        monkeypatch.setattr(FencedProducer, "write", write)
        raise KafkaException(KafkaError(FORGOTTEN))

    def away(numbers: Sequence[int]) -> dict[int, int]:
        monkeypatch.setattr(log, "_sign", sign)
        if signed:
            sign(numbers)
        else:
            log.close()
        raise TransientError("the broker does not answer")

    monkeypatch.setattr(FencedProducer, "write", forgotten)
    monkeypatch.setattr(log, "_sign", away)
    with pytest.raises(TransientError, match="does not answer"):
        log.write({0: [(b"a", b"2")]})
    log.write({0: [(b"a", b"2")]})

    successor = OpenPartition(bus, f"{topic_prefix}.changelog")
    assert successor.read() == [(b"a", b"1"), (b"a", b"2")]
    with pytest.raises(StopService, match="another process"):
        log.write({0: [(b"a", b"zombie")]})
