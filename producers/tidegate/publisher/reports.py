"""Delivery reports of one call: the polling thread records them, the call waits for them."""

from __future__ import annotations

from queue import Empty, SimpleQueue

from confluent_kafka import KafkaError
from confluent_kafka import Message as Delivered

from tidegate.errors.deliveries import Receipt


class Reports:
    """The delivery reports of one call, by the index of the message.

    `SimpleQueue` is the signal because its calls are atomic: an exception that a signal handler
    raises in the waiting call leaves no lock taken that `record` would wait for.
    """

    __slots__ = ("_by_index", "_complete", "_count", "_fault", "_is_back", "not_sent")

    def __init__(self, count: int) -> None:
        """Expect reports of so many messages."""
        self._count = count
        self._by_index: dict[int, KafkaError | Receipt] = {}
        self._complete: SimpleQueue[None] = SimpleQueue()
        self._fault: Exception | None = None
        self._is_back = False
        self.not_sent: set[int] = set()
        """The messages that the client did not take."""

    @property
    def arrived(self) -> int:
        """How many messages have a report."""
        return len(self._by_index)

    def record(self, index: int, error: KafkaError | None, delivered: Delivered | None) -> None:
        """Store a report. The polling thread calls it; it never blocks."""
        if error is not None:
            self._by_index[index] = error
        elif delivered is not None:
            topic, partition, offset = delivered.topic(), delivered.partition(), delivered.offset()
            self._by_index[index] = Receipt(topic or "", partition or 0, offset or 0)
        if len(self._by_index) == self._count:
            self._complete.put(None)

    def fail(self, error: Exception) -> None:
        """The messages can't be sent: raise this where they are waited for."""
        self._fault = error
        self._complete.put(None)

    def hand_back(self) -> None:
        """The connection was closed before it took the messages."""
        self._is_back = True
        self._complete.put(None)

    def was_handed_back(self) -> bool:
        """Whether the messages have to be sent again; then it expects their reports again."""
        is_back, self._is_back = self._is_back, False
        return is_back

    def wait(self, seconds: float) -> bool:
        """Wait until every message has a report, at most so many seconds; whether it has.

        It is true, too, where the messages were handed back.

        Raises:
            Exception: what `fail` was called with.
        """
        if len(self._by_index) < self._count:
            try:
                self._complete.get(timeout=seconds)
            except Empty:
                return False
        if self._fault is not None:
            raise self._fault
        return self._is_back or len(self._by_index) >= self._count

    def too_large(self) -> list[int]:
        """The messages that the broker refused for their size."""
        return [
            index
            for index, found in sorted(self._by_index.items())
            if isinstance(found, KafkaError)
            and found.code() == KafkaError.MSG_SIZE_TOO_LARGE
            and index not in self.not_sent
        ]

    def forget(self, index: int) -> None:
        """Expect another report of a message: it is sent again."""
        del self._by_index[index]

    def outcomes(self) -> list[KafkaError | Receipt | None]:
        """The outcome of each message, in their order; None where no report came."""
        return [self._by_index.get(index) for index in range(self._count)]

    def receipts(self) -> list[Receipt]:
        """The receipts in the order of the messages."""
        return [found for found in self.outcomes() if isinstance(found, Receipt)]

    def failed(self) -> list[KafkaError]:
        """The errors of the messages that were not confirmed."""
        return [found for found in self._by_index.values() if isinstance(found, KafkaError)]
