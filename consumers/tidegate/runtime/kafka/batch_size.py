"""How many messages are taken from the client at a time: many small ones, few large ones.

A batch is in memory beside what the client has fetched ahead: a thousand messages of a megabyte
would be a gigabyte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegate.publisher.arrived import arrived

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer
    from confluent_kafka import Message as Received

BATCH_BYTES: Final = 4 * 2**20
"""Of the values in a batch; more only where a single message, or a sudden neighbour, has more."""
_FIRST: Final = 16
_GROWTH: Final = 4
"""A batch is at most so many times the last one: what follows small messages may be large."""


class BatchSize:
    """Takes batches from a consumer, each as large as the last one's messages allow."""

    def __init__(self, most: int) -> None:
        """Take the most messages of a batch."""
        self._most = most
        self.count = min(most, _FIRST)

    def consume(self, consumer: Consumer, seconds: float) -> Sequence[Received]:
        """The next messages and errors; empty where none came within these seconds."""
        messages = arrived(consumer, self.count, seconds)
        if messages:
            # the length of a message is its value's; an error has one, too
            each = max(1, sum(map(len, messages)) // len(messages))
            fitting = max(1, BATCH_BYTES // each)
            self.count = min(self._most, fitting, _GROWTH * self.count)
        return messages
