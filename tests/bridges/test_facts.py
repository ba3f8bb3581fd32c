"""The topics are read whole at first, and then on a thread: no look waits for a broker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tidegate.bridges import facts
from tidegate.bridges.facts import FactsAhead, FactsReader
from tidegate.errors import TransientError
from tidegate.events import Event, LockReleased
from tidegate.runtime.bus import Partition

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def release(lock: int) -> Event:
    return LockReleased(
        table="hive.a.t", location="/t", occurred_at=NOW, source="test", lock_id=lock
    )


class Topics:
    """A reader whose batches are put here; None: the broker is away."""

    def __init__(self) -> None:
        self.left: list[list[Event] | None] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def read(self) -> Iterator[list[Event]]:
        assert self.may_go_on.wait(60)
        while self.left:
            batch = self.left.pop(0)
            if batch is None:
                raise TransientError("the broker is away")
            yield batch


def ahead(topics: Topics) -> FactsAhead:
    return FactsAhead(cast("FactsReader", topics))


def until_read(reading: FactsAhead, count: int) -> list[int]:
    found: list[int] = []
    until = time.monotonic() + 30
    while len(found) < count and time.monotonic() < until:
        found += locks(reading)
    return found


def locks(reading: FactsAhead) -> list[int]:
    events = [event for batch in reading.read() for event in batch]
    return [event.lock_id or 0 for event in events if isinstance(event, LockReleased)]


def test_the_first_time_everything_is_read_before_it_goes_on() -> None:
    topics = Topics()
    topics.left = [[release(1)], None, [release(2)]]
    reading, found = ahead(topics), list[Event]()
    with pytest.raises(TransientError):
        found += [event for batch in reading.read() for event in batch]
    assert locks(reading) == [2]


def test_nothing_waits_for_a_broker_that_is_slow_and_nothing_is_lost() -> None:
    topics = Topics()
    reading = ahead(topics)
    assert locks(reading) == []
    topics.may_go_on.clear()
    topics.left = [[release(1), release(2)], [release(3)]]
    assert [locks(reading) for _ in range(100)] == [[]] * 100
    topics.may_go_on.set()
    assert until_read(reading, 3) == [1, 2, 3]


def test_a_fault_is_raised_once_and_what_was_read_before_it_is_given() -> None:
    topics = Topics()
    reading = ahead(topics)
    list(reading.read())
    topics.left = [[release(1)], None, [release(2)]]
    found: list[list[Event]] = []

    def read_until_the_fault() -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            found.extend(reading.read())

    with pytest.raises(TransientError):
        read_until_the_fault()
    assert found == [[release(1)]]
    assert until_read(reading, 1) == [2]


class Cluster:
    """Three topics of two partitions on which nothing new is; counts what is asked."""

    def __init__(self) -> None:
        self.asked = Counter[str]()

    def connected(self, config: object) -> Cluster:
        assert config == {}
        return self

    def spans(self, topic: str, _: int = 0) -> dict[Partition, range]:
        self.asked["spans"] += 1
        return {Partition(topic, number): range(5, 5) for number in range(2)}

    def ends(self, parts: Collection[Partition]) -> dict[Partition, int]:
        self.asked["ends"] += 1
        return dict.fromkeys(parts, 5)


def test_where_nothing_is_new_a_read_is_one_request_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(facts, "KafkaMetadata", cluster.connected)
    reader = FactsReader(cast("Any", {}), {"a": None, "b": None, "c": timedelta(days=1)}, "group")
    for _ in range(10):
        assert list(reader.read()) == []
    assert cluster.asked == {"spans": 3, "ends": 9 * 3}
