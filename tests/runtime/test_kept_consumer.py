"""Short readings share a consumer, and none of them sees what another one left."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.publisher import Message
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.kept_consumer import KeptConsumer
from tidegate.runtime.kafka.partition_reader import standalone_consumer

pytestmark = pytest.mark.kafka
READINGS = 5


@pytest.fixture
def topic(bootstrap_servers: str, topic_prefix: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic_prefix, 2, 1)])[topic_prefix].result(60)
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    bus.send([Message(topic_prefix, b"key", b"%d" % n, (), n % 2) for n in range(40)])
    bus.close()
    return topic_prefix


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """Every consumer that was made."""
    consumers: list[Consumer] = []

    def counted(*args: Any, **options: Any) -> Consumer:  # noqa: ANN401 - passed on
        consumers.append(standalone_consumer(*args, **options))
        return consumers[-1]

    monkeypatch.setattr(f"{KeptConsumer.__module__}.standalone_consumer", counted)
    return consumers


@pytest.fixture
def kept(bootstrap_servers: str) -> Iterator[KeptConsumer]:
    consumer = KeptConsumer({"bootstrap.servers": bootstrap_servers})
    yield consumer
    consumer.close()


def values(consumer: KeptConsumer, topic: str, partition: int, span: range) -> list[int]:
    return [int(each.value or b"") for each in consumer.read({Partition(topic, partition): span})]


def test_many_readings_take_one_consumer_wherever_they_begin(
    kept: KeptConsumer, topic: str, made: list[Consumer]
) -> None:
    spans = [range(3), range(3, 5), range(5, 5), range(20), range(20), range(19, 20)]
    for span in spans:
        assert values(kept, topic, 0, span) == [2 * each for each in span]
        assert values(kept, topic, 1, span) == [2 * each + 1 for each in span]
    assert len(made) == 1


def test_a_reading_that_was_left_half_way_disturbs_no_later_one(
    kept: KeptConsumer, topic: str, made: list[Consumer]
) -> None:
    begun = iter(kept.read({Partition(topic, 0): range(20)}))
    next(begun)
    begun.close()  # type: ignore[attr-defined]

    assert values(kept, topic, 0, range(10, 12)) == [20, 22]
    assert len(made) == 2


def test_two_at_once_have_a_consumer_each(
    kept: KeptConsumer, topic: str, made: list[Consumer]
) -> None:
    one, other = (iter(kept.read({Partition(topic, n): range(20)})) for n in (0, 1))
    taken = [(next(one).value, next(other).value) for _ in range(20)]
    assert taken == [(b"%d" % (2 * n), b"%d" % (2 * n + 1)) for n in range(20)]
    assert (next(one, None), next(other, None)) == (None, None)
    assert len(made) == 2

    with ThreadPoolExecutor(4) as pool:
        spans = [range(n, n + 3) for n in range(16)]
        for span, found in zip(
            spans, pool.map(partial(values, kept, topic, 0), spans), strict=True
        ):
            assert found == [2 * each for each in span]
    assert values(kept, topic, 0, range(1)) == [0]


def test_a_reading_ends_behind_what_a_transaction_left(
    kept: KeptConsumer, bootstrap_servers: str, topic: str
) -> None:
    """Markers take offsets and come as no record; an aborted record does not come either."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-writer"}
    )
    producer.init_transactions(30)
    for value, is_kept in ((b"40", True), (b"lost", False), (b"42", True)):
        producer.begin_transaction()
        producer.produce(topic, value, b"key", 0)
        producer.flush(30)
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)

    assert values(kept, topic, 0, range(20, 22)) == [40]
    assert values(kept, topic, 0, range(22, 24)) == []
    for _ in range(READINGS):  # each fails after half a minute where the end is not seen again
        assert values(kept, topic, 0, range(20, 26)) == [40, 42]


def test_what_is_read_after_the_close_leaves_nothing_open(
    kept: KeptConsumer, topic: str, made: list[Consumer]
) -> None:
    kept.close()
    assert values(kept, topic, 0, range(1)) == [0]
    with pytest.raises(RuntimeError, match="closed"):
        made[0].assignment()
