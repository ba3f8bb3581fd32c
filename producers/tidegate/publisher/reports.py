"""Delivery reports, and who polls for them: one thread at a time, whichever waits.

A report is served in the thread that polls, and that may be another one than waits for it. So who
polls wakes the waiting call once its last report is there, and hands the polling on when it leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka import Message as Delivered


class Receipt(NamedTuple):
    """Where the broker stored a message, and the id of the event in it."""

    topic: str
    partition: int
    offset: int
    event_id: str = ""


_STORED: Final = Receipt("", -1, -1)
"""Of a message whose place nobody asks for: a report costs half as much without."""


class Reports:
    """The delivery reports of one call, by the index of the message."""

    __slots__ = ("_by_index", "_count", "_places", "woken")

    def __init__(self, count: int, *, places: bool = True) -> None:
        """Expect reports of so many messages; `places`: whether somebody asks for the receipts."""
        self._count, self._places = count, places
        self._by_index: dict[int, KafkaError | Receipt] = {}
        self.woken = threading.Event()
        """Set when nothing is missing any more, or when it is this call's turn to poll."""

    @property
    def missing(self) -> bool:
        """Whether a message has no report yet."""
        return len(self._by_index) < self._count

    def record(self, index: int, error: KafkaError | None, delivered: Delivered | None) -> None:
        """Store a report; called in whichever thread polls."""
        if error is not None:
            self._by_index[index] = error
        elif not self._places:
            self._by_index[index] = _STORED
        elif delivered is not None:
            topic, partition, offset = delivered.topic(), delivered.partition(), delivered.offset()
            self._by_index[index] = Receipt(topic or "", partition or 0, offset or 0)
        if not self.missing:
            self.woken.set()

    def faults(self) -> list[KafkaError]:
        """The errors of the messages that were not confirmed."""
        return [each for each in self._by_index.values() if isinstance(each, KafkaError)]

    def receipts(self) -> list[Receipt]:
        """The receipts in the order of the messages."""
        ordered = (self._by_index[index] for index in range(self._count))
        return [each for each in ordered if isinstance(each, Receipt)]


class Turns:
    """Whose turn it is to poll one producer, among the calls that wait for its reports."""

    def __init__(self) -> None:
        """Nobody waits yet."""
        self._lock = threading.Lock()
        self._polling: Reports | None = None
        self._waiting: dict[int, Reports] = {}

    def wait(self, reports: Reports, poll: Callable[[], object]) -> None:
        """Return once none of these reports is missing.

        Args:
            reports: Those of this call.
            poll: Serves reports, of any call; returns within a short time. Called from one thread
                at a time.
        """
        try:
            while reports.missing:
                if self._takes_turn(reports):
                    poll()
                else:
                    reports.woken.wait()
                    reports.woken.clear()
        finally:
            self._leave(reports)

    def _takes_turn(self, reports: Reports) -> bool:
        if self._polling is reports:  # only this thread changes that
            return True
        with self._lock:
            if self._polling is None:
                self._polling = reports
                self._waiting.pop(id(reports), None)
                return True
            self._waiting[id(reports)] = reports
            return self._polling is reports

    def _leave(self, reports: Reports) -> None:
        with self._lock:
            self._waiting.pop(id(reports), None)
            if self._polling is not reports:
                return
            self._polling = next(iter(self._waiting.values()), None)
            if self._polling is not None:
                del self._waiting[id(self._polling)]
                self._polling.woken.set()
