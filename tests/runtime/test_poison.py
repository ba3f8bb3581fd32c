"""No message, whatever its bytes, holds up its partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Message as Received

from support.memory_bus import MemoryBus
from support.samples import EveryThird, commit, memory_bus, message, outcomes_on
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import MessageTooLargeError
from tidegate.events.topics import ALL_TOPICS
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.input.dead_letters import (
    HEADERS_LEFT_OUT,
    KEY_LEFT_OUT,
    VALUE_LEFT_OUT,
    DeadLetterQueue,
)
from tidegate.runtime.kafka.errors import is_transient
from tidegate.runtime.kafka.records import as_record
from tidegate.runtime.retry import RetryPolicy

DEAD, COMMITS = "tidegate.dead-letters", "tidegate.commits"
LIMIT = 2 * 2**20
HUGE = b"k" * 4 * 2**20


class LimitedBus(MemoryBus):
    """Its dead-letter topic has a limit, as on a real broker."""

    def send(self, messages: Sequence[Message]) -> None:
        for sent in messages:
            parts = [sent.key, sent.value, *(content for _, content in sent.headers)]
            if sent.topic == DEAD and sum(len(part or b"") for part in parts) > LIMIT:
                raise MessageTooLargeError("Message size too large")
        super().send(messages)


def limited_bus() -> LimitedBus:
    names = [topic.name() for topic in ALL_TOPICS]
    return LimitedBus(names, partitions=1)


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param(Message(COMMITS, HUGE, b"junk"), id="a key of 4 MB"),
        pytest.param(Message(COMMITS, b"k", b"junk", (("h", HUGE),)), id="a header of 4 MB"),
        pytest.param(Message(COMMITS, HUGE, HUGE, (("h", HUGE),)), id="everything"),
    ],
)
def test_where_not_even_the_dead_letter_fits_the_place_is_the_dead_letter(poison: Message) -> None:
    bus = limited_bus()
    bus.send([poison, *(message(commit(n)) for n in range(3))])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        pass

    [dead_letter] = bus.records(DEAD)
    headers = dict(dead_letter.headers)
    assert (dead_letter.key, dead_letter.value) == (None, None)
    assert headers["x-original-topic"] == COMMITS.encode()
    assert (headers["x-original-partition"], headers["x-original-offset"]) == (b"0", b"0")
    assert headers[KEY_LEFT_OUT] == str(len(poison.key or b"")).encode()
    assert headers[VALUE_LEFT_OUT] == str(len(poison.value or b"")).encode()
    assert headers[HEADERS_LEFT_OUT] == b"too large"
    assert len(outcomes_on(bus)) == 1


class Unreadable:
    """What the client's message does where a header's name is not UTF-8."""

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def topic(self) -> str:
        return COMMITS

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return (2, 0)

    def headers(self) -> object:
        raise SystemError("<method 'headers'> returned a result with an exception set")


def test_a_header_name_that_is_not_utf8_is_left_out_of_the_dead_letter() -> None:
    bus = memory_bus(partitions=1)
    record = as_record(cast("Received", Unreadable()))
    assert "not UTF-8" in record.unreadable
    queue = DeadLetterQueue("gate", bus, "tidegate", RetryPolicy(), DeadLetterLimit())
    queue.send(record, ValueError("junk"))

    [dead_letter] = bus.records(DEAD)
    assert (dead_letter.key, dead_letter.value) == (b"k", b"v")
    assert dict(dead_letter.headers)[HEADERS_LEFT_OUT] == b"unreadable"


def test_a_dead_letter_goes_to_a_partition_that_its_topic_has() -> None:
    bus = memory_bus(partitions=3)
    record = Record(Partition(COMMITS, 7), 0, b"k", b"v", (), 0)
    queue = DeadLetterQueue("gate", bus, "tidegate", RetryPolicy(), DeadLetterLimit())
    queue.send(record, ValueError("junk"))

    [dead_letter] = bus.records(DEAD)
    assert dead_letter.partition.number == 7 % 3
    assert dict(dead_letter.headers)["x-original-partition"] == b"7"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(KafkaError._NOENT, id="no leader is elected yet"),
        pytest.param(KafkaError._DESTROY_BROKER, id="a broker left while it was asked"),
        pytest.param(KafkaError._UNKNOWN_BROKER, id="a broker that is not known yet"),
        pytest.param(KafkaError._FAIL, id="the connection failed"),
    ],
)
def test_brokers_that_come_and_go_are_waited_for(code: int) -> None:
    assert is_transient(KafkaError(code))
