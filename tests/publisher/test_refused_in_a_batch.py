"""A batch with one event that the broker refuses: which it was, and what became of the others."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka.admin import AdminClient

from support.deployment_events import vacuum
from support.kafka import create_topic
from support.samples import NOON
from tidegate.errors import DeliveryError, InvalidEventError, MessageTooLargeError
from tidegate.events import CommitCondemned, Event, SavepointRequested
from tidegate.publisher import NotStored, Publisher, Receipt, Unconfirmed

LIMIT = 20_000
SOON = {"delivery.timeout.ms": 4_000, "topic.metadata.propagation.max.ms": 500}


def request(number: int, comment: str = "") -> Event:
    return SavepointRequested(
        event_id=f"r{number}",
        table="lake.sales.orders",
        location="/lake/orders",
        occurred_at=NOON,
        source="test",
        requested_by="ana",
        comment=comment,
    )


def noise(size: int) -> str:
    """Text that does not compress to less than half."""
    return "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FA5), k=size)))  # noqa: S311 - no secret


def limited_topic(servers: str, topic: str) -> None:
    create_topic(servers, topic, max_message_bytes=str(LIMIT))


@pytest.mark.kafka
@pytest.mark.parametrize("large", [0, 1, 4])
def test_the_event_that_is_too_large_is_named_and_the_others_are_stored(
    bootstrap_servers: str, topic_prefix: str, large: int
) -> None:
    limited_topic(bootstrap_servers, f"{topic_prefix}.requests")
    events = [request(number, noise(9_900 if number == large else 10)) for number in range(5)]

    with Publisher(bootstrap_servers, source="test", prefix=topic_prefix) as publisher:
        with pytest.raises(MessageTooLargeError) as raised:
            publisher.publish(*events)
        again = publisher.publish(request(9))

    results = raised.value.results
    kinds = [NotStored if number == large else Receipt for number in range(5)]
    assert [type(result) for result in results] == kinds
    assert [result.event_id for result in results] == [event.event_id for event in events]
    assert f"4 stored, 0 unconfirmed, 1 not stored: event {large + 1} (r{large})" in str(
        raised.value
    )
    assert again[0].offset == 4


@pytest.mark.kafka
def test_events_that_are_too_large_only_together_are_stored(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    limited_topic(bootstrap_servers, f"{topic_prefix}.requests")
    events = [request(number, noise(3_000)) for number in range(10)]

    with Publisher(bootstrap_servers, source="test", prefix=topic_prefix) as publisher:
        receipts = publisher.publish(*events)

    assert sorted(receipt.offset for receipt in receipts) == list(range(10))


@pytest.mark.kafka
def test_where_a_topic_vanished_the_events_of_the_other_are_stored(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    topics = [f"{topic_prefix}.requests", f"{topic_prefix}.commits"]
    for topic in topics:
        create_topic(bootstrap_servers, topic)
    condemned = CommitCondemned(
        table="lake.sales.orders",
        location="/lake/orders",
        occurred_at=NOON,
        source="test",
        instant="20260301100000001",
        reason="bad",
    )
    with Publisher(bootstrap_servers, source="test", prefix=topic_prefix, config=SOON) as publisher:
        publisher.publish(condemned)
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for done in admin.delete_topics(topics[1:]).values():
            done.result(20)
        time.sleep(1)
        with pytest.raises(DeliveryError) as raised:
            publisher.publish(request(1), condemned, request(2))

    first, vanished, last = raised.value.results
    assert (type(first), type(last)) == (Receipt, Receipt)
    assert isinstance(vanished, NotStored | Unconfirmed)
    assert vanished.event_id == condemned.event_id


def test_without_a_broker_no_event_is_said_to_be_stored_or_refused() -> None:
    config = {"delivery.timeout.ms": 300}
    with (
        Publisher("127.0.0.1:9", source="test", config=config) as publisher,
        pytest.raises(DeliveryError, match="0 stored, 2 unconfirmed, 0 not stored") as raised,
    ):
        publisher.publish(request(1), request(2))

    assert [type(result) for result in raised.value.results] == [Unconfirmed, Unconfirmed]


def test_an_invalid_event_is_named_and_no_other_is_sent() -> None:
    wrong = vacuum(2).model_copy(update={"max_write_id": 99})
    config = {"delivery.timeout.ms": 300}  # the broker does not answer: had anything been sent...
    with (
        Publisher("127.0.0.1:9", source="test", config=config) as publisher,
        pytest.raises(InvalidEventError, match=r"event 2 of 3 \(.*none of them was sent"),
    ):
        publisher.publish(request(1), wrong, request(2))
