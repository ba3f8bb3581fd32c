"""What the loop needs of a broker: a protocol with a Kafka and a memory backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from tidegate.errors import ConfigError
from tidegate.events.message import Headers
from tidegate.publisher import Message


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


Offsets = Mapping[Partition, int]
Notes = Mapping[Partition, str]
NO_NOTES: Final[Notes] = MappingProxyType({})


class Record(NamedTuple):
    """A message as the broker keeps it. `timestamp_ms` is when the broker appended it."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition holds: the offsets from `first` up to before `end`.

    `topic_id` is the broker's: a topic that was deleted and created again has another.
    """

    topic_id: str
    first: int
    end: int


class Listener(Protocol):
    """Told of every change of ownership, from inside `Subscription.poll` and `close`."""

    def assigned(self, starts: Offsets) -> None:
        """These are ours, to be read on from these offsets; records follow once this returns."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """These will be another's; what is done may still be committed here."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """These are another's already: forget them, commit nothing."""
        ...


class Subscription(Protocol):
    """A member of a consumer group. One thread calls it, and calls `poll` again and again."""

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Give up to `limit` records, waiting up to `timeout` seconds for the first.

        Raises:
            OffsetGapError: a committed offset is no longer in its topic.
            StopService: the broker refuses us for good.
        """
        ...

    def commit(self, at: Offsets, notes: Notes = NO_NOTES, *, wait: bool = False) -> None:
        """Say up to where the work is done: the offset of the next record to read.

        A note, of at most 1,000 characters, is kept with its partition's offset.
        """
        ...

    def noted(self, partition: Partition) -> str:
        """Give the note that is kept with the offset of a partition of ours; empty if none is."""
        ...

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Give no more records of these; membership goes on."""
        ...

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Give records of these again."""
        ...

    def close(self) -> None:
        """Leave the group; `revoked` is called first."""
        ...


class Changelog(Protocol):
    """A decider's memory for one partition. Taking it shuts out whoever held it before."""

    def read(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Give all that was written, oldest first; a later value of a key replaces an earlier."""
        ...

    def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append entries in this order; None removes a key. Returns when the broker has them.

        Raises:
            FencedError: another process has taken this changelog; nothing was written.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Bus(Protocol):
    """A broker."""

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            ConfigError: there is no such topic.
        """
        ...

    def extent(self, partition: Partition) -> Extent:
        """What a partition holds now.

        Raises:
            TransientError: the broker can't say now.
        """
        ...

    def subscribe(self, group: str, topics: Sequence[str], listener: Listener) -> Subscription:
        """Join a consumer group. A group that is new reads its topics from their beginning."""
        ...

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; returns when the broker has all of them. Safe from any thread.

        Raises:
            DeliveryError: at least one was not confirmed.
        """
        ...

    def log(self, partition: Partition) -> Iterable[Record]:
        """Read a partition from its beginning to its present end, outside of every group."""
        ...

    def changelog(self, topic: str, partition: int) -> Changelog:
        """Take the changelog of a partition, shutting out whoever held it before."""
        ...

    def close(self) -> None:
        """Let go of all connections."""
        ...


def copartitioned(bus: Bus, topics: Iterable[str]) -> int:
    """Give the number of partitions that these topics have, each the same.

    Raises:
        ConfigError: one of them is not there, or they differ: the events of a table, or its events
            and what is remembered of it, would lie on partitions of different numbers.
    """
    counts = {topic: bus.partitions(topic) for topic in topics}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
        raise ConfigError(f"these topics must have the same number of partitions: {told}")
    return counts.popitem()[1]
