"""A publisher that threads share: one thread polls, and only while a report is outstanding."""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.waiting import wait_for
from tidegate.publisher import ConfirmedProducer, Message

THREADS, CALLS = 8, 200


class Stored:
    """A message as a client reports it."""

    def __init__(self, topic: str, offset: int) -> None:
        self._topic, self._offset = topic, offset

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class CountingClient:
    """A client whose broker answers at once; counts its polls, and those at the same time."""

    made: CountingClient

    def __init__(self, _: object) -> None:
        CountingClient.made = self
        self.reports: deque[tuple[Callable[..., None], Stored]] = deque()
        self.arrived = threading.Condition()
        self.polls = self.empty = self.now = self.most = self.sent = 0

    def produce(self, topic: str, *rest: Any) -> None:  # noqa: ANN401 - as the original
        with self.arrived:
            self.reports.append((rest[3], Stored(topic, self.sent)))
            self.sent += 1
            self.arrived.notify()

    def __len__(self) -> int:
        return len(self.reports)

    def poll(self, timeout: float) -> int:
        with self.arrived:
            self.polls += 1
            self.now += 1
            self.most = max(self.most, self.now)
            if not self.arrived.wait_for(lambda: self.reports, timeout):
                self.empty += 1
            ready = list(self.reports)
            self.reports.clear()
        for report, stored in ready:
            report(None, stored)
        with self.arrived:
            self.now -= 1
        return len(ready)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> ConfirmedProducer:
    monkeypatch.setattr("tidegate.publisher.connection.Producer", CountingClient)
    return ConfirmedProducer({"bootstrap.servers": "nowhere:9092"})


def test_threads_that_share_a_publisher_never_poll_without_a_report(
    shared: ConfirmedProducer,
) -> None:
    def work(number: int) -> list[int]:
        messages = [Message(f"t{number}", b"k", b"v")]
        return [shared.send(messages)[0].offset for _ in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        offsets = [offset for offsets in pool.map(work, range(THREADS)) for offset in offsets]

    client = CountingClient.made
    assert sorted(offsets) == list(range(THREADS * CALLS))
    assert client.most == 1
    assert client.polls <= THREADS * CALLS
    assert client.empty == 0


def test_two_threads_that_find_a_connection_dead_replace_it_by_one(
    shared: ConfirmedProducer,
) -> None:
    dead = shared._connection
    first = shared._replace(dead)

    assert shared._replace(dead) is first is shared._connection


def test_the_polling_thread_ends_with_its_publisher(shared: ConfirmedProducer) -> None:
    shared.send([Message("t", b"k", b"v")])  # its thread runs by now
    others = _thread._count()
    own = ConfirmedProducer({"bootstrap.servers": "nowhere:9092"})
    own.send([Message("t", b"k", b"v")])
    assert _thread._count() == others + 1
    own.close()
    wait_for("its end", lambda: _thread._count() == others, 10)

    assert own.send([Message("t", b"k", b"v")])[0].offset == 0  # a client of its own
    del own
    wait_for("the end without close", lambda: _thread._count() == others, 10)
