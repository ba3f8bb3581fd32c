"""Faults that no partition has, and answers that leave a topic out: clear errors or another try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from tidegate.errors import StopService, TransientError
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka import records
from tidegate.runtime.kafka.metadata import KafkaMetadata

PARTITION = Partition("t.outcomes", 0)


@dataclass
class Fault:
    """What the client reports: of itself or of its group with neither topic nor partition."""

    code: int
    where: Partition | None = None

    def __len__(self) -> int:
        return 20  # of the error's text

    def error(self) -> KafkaError:
        return KafkaError(self.code)

    def topic(self) -> str | None:
        return self.where and self.where.topic

    def partition(self) -> int | None:
        return self.where and self.where.number

    def offset(self) -> int | None:
        return self.where and 1


@dataclass
class Client:
    """A consumer that gives these, one at a time."""

    messages: list[Fault]
    assigned: list[object] = field(default_factory=list[object])

    def assign(self, parts: list[object]) -> None:
        self.assigned = parts

    def poll(self, _seconds: float) -> Fault:
        return self.messages.pop(0)

    def consume(self, _most: int, _seconds: float) -> list[Fault]:
        return []

    def close(self) -> None:
        """Nothing to close."""


def merged() -> Iterator[Record]:
    yield from records.read_in_order({}, {PARTITION: range(1)})


def spans() -> Iterator[Record]:
    yield from records.read_spans({}, {PARTITION: range(1)})


@pytest.fixture(params=[merged, spans])
def read(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[Fault]], list[Record]]:
    def reading(messages: list[Fault]) -> list[Record]:
        monkeypatch.setattr(records, "Consumer", lambda _: Client(messages))
        return list(request.param())

    return reading


def test_a_group_that_is_refused_ends_the_reading_and_says_what_to_grant(
    read: Callable[[list[Fault]], list[Record]],
) -> None:
    with pytest.raises(StopService, match=r"reading t\.outcomes: .*tidegate topics acls"):
        read([Fault(KafkaError.GROUP_AUTHORIZATION_FAILED)])


def test_a_connection_that_broke_is_waited_for(read: Callable[[list[Fault]], list[Record]]) -> None:
    broken, end = Fault(KafkaError._TRANSPORT), Fault(KafkaError._PARTITION_EOF, PARTITION)

    assert read([broken, end]) == []


def test_an_answer_without_the_topic_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = KafkaMetadata({"bootstrap.servers": "127.0.0.1:1"})
    answer = SimpleNamespace(list_topics=lambda *_, **__: SimpleNamespace(topics={}))
    monkeypatch.setattr(metadata, "_admin", answer)

    with pytest.raises(TransientError, match="a broker answered without it"):
        metadata.partitions("t.outcomes")
