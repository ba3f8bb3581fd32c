"""A publisher that threads share: a report wakes the call that waits for it; one thread polls."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidegate.publisher import ConfirmedProducer, Message
from tidegate.publisher.reports import Reports, Turns

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
    monkeypatch.setattr("tidegate.publisher.delivery.Producer", CountingClient)
    return ConfirmedProducer({"bootstrap.servers": "nowhere:9092"})


def test_threads_that_share_a_publisher_never_poll_without_a_report(
    shared: ConfirmedProducer,
) -> None:
    def work(number: int) -> list[int]:
        messages = [Message(f"t{number}", b"k", b"v")]
        return [shared.send(messages)[0].offset for _ in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        offsets = [offset for each in pool.map(work, range(THREADS)) for offset in each]

    client = CountingClient.made
    assert sorted(offsets) == list(range(THREADS * CALLS))
    assert client.most == 1
    assert client.polls <= THREADS * CALLS
    assert client.empty == 0


def test_who_polls_wakes_who_waits_and_hands_the_polling_on() -> None:
    turns, first, second = Turns(), Reports(1), Reports(1)
    polled: list[str] = []
    served = threading.Event()

    def poll_of_first() -> None:
        if not served.wait(60):
            raise AssertionError("the second call does not wait")
        polled.append("first")
        first.record(0, None, Stored("a", 1))  # type: ignore[arg-type]

    def poll_of_second() -> None:
        polled.append("second")
        second.record(0, None, Stored("b", 2))  # type: ignore[arg-type]

    leader = threading.Thread(target=turns.wait, args=(first, poll_of_first), daemon=True)
    leader.start()
    while turns._polling is not first:
        time.sleep(0.001)
    follower = threading.Thread(target=turns.wait, args=(second, poll_of_second), daemon=True)
    follower.start()
    while not turns._waiting:
        time.sleep(0.001)
    served.set()
    leader.join(60)
    follower.join(60)

    assert not follower.is_alive()
    assert polled == ["first", "second"]
    assert turns._polling is None
    assert not turns._waiting


def test_a_call_whose_poll_fails_hands_the_polling_on() -> None:
    turns, failing = Turns(), Reports(1)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turns.wait(failing, interrupted)
    other = Reports(1)
    turns.wait(other, lambda: other.record(0, None, Stored("a", 1)))  # type: ignore[arg-type]

    assert other.receipts()[0].offset == 1
