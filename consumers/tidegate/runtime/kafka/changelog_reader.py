"""Reads partitions of a changelog while others may still write to them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, Self

from confluent_kafka import Message as Received
from confluent_kafka import TopicPartition

from tidegate.errors import TransientError
from tidegate.publisher.connection import arrived
from tidegate.runtime.kafka.errors import require_transient
from tidegate.runtime.kafka.partition_reader import QUICK, standalone_consumer
from tidegate.runtime.kafka.read_to_end import is_end, read_up_to
from tidegate.runtime.kafka.records import BATCH, Config

_WAIT: Final = 30.0
_GRACE: Final = 0.5
"""A committed transaction is visible in all its partitions within a few milliseconds."""


class ChangelogReader:
    """One consumer for any number of partitions; `positions` has the next offset of each."""

    def __init__(
        self, config: Config, topic: str, starts: Mapping[int, int], *, committed: bool = True
    ) -> None:
        """Begin at these offsets, or at the partition's first offset if that is later.

        Args:
            config: librdkafka's settings.
            topic: The changelog.
            starts: By partition the first offset to read.
            committed: Whether to leave out records of open and aborted transactions.
        """
        self._consumer = standalone_consumer(
            {**config, **QUICK}, topic, on_missing_offset="earliest", committed=committed
        )
        self._topic = topic
        self.positions = dict(starts)
        self._at_end: set[int] = set()
        self._consumer.assign([TopicPartition(topic, *item) for item in starts.items()])

    def __enter__(self) -> Self:
        """Close the connection at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self._consumer.close()

    def read(self, until: Mapping[int, int], *, decided: bool = False) -> Iterator[Received]:
        """Yield records up to these offsets, and perhaps some after them.

        Args:
            until: By partition the offset at which to stop.
            decided: Also stop at a transaction that stays open for more than half a second: its
                records can't be read before it is committed or aborted.

        Raises:
            TransientError: nothing could be read for 30 seconds.
            StopService: the broker refuses access.
        """
        began = progress = time.monotonic()
        while missing := [part for part, end in until.items() if self.positions[part] < end]:
            waited = time.monotonic() - began
            if decided and waited > _GRACE and self._at_end.issuperset(missing):
                return
            messages = arrived(self._consumer, BATCH, 0.05)
            for message in messages:
                if self._advance(message):
                    yield message
            if messages:
                progress = time.monotonic()
            elif time.monotonic() - progress > _WAIT:
                raise TransientError(
                    f"{self._topic}{missing}: not read to the end within {_WAIT:.0f} s"
                )

    def _advance(self, message: Received) -> bool:
        """Advance the position past a message; return whether it is a record."""
        number, error = int(message.partition() or 0), message.error()
        if (position := read_up_to(message)) is not None:
            self.positions[number] = max(self.positions[number], position)
        if error is None:
            self._at_end.discard(number)
        elif is_end(error):
            self._at_end.add(number)
        else:
            require_transient(error, f"reading {self._topic}[{number}]")
        return error is None
