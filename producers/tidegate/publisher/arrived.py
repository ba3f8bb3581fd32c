"""Read the messages that have arrived, without waiting for a complete batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def arrived(consumer: Consumer, limit: int, seconds: float) -> Sequence[Message]:
    """Wait for a message, then return it with those that arrived together; may be empty.

    `Consumer.consume` alone waits for its complete time-out unless it reaches its limit, so a
    caller that reads two records with it waits as long as for a thousand.
    """
    first = consumer.poll(seconds)
    if first is None:
        return ()
    return [first, *consumer.consume(limit - 1, 0)] if limit > 1 else [first]
