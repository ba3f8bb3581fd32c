"""The bus in memory: for tests and for trying a policy out. It keeps to the same rules."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from zlib import crc32

from tidegate.errors import ConfigError, FencedError
from tidegate.publisher import Message
from tidegate.runtime.bus import Extent, Listener, Partition, Record
from tidegate.runtime.memory_subscription import MemorySubscription


class MemoryChangelog:
    """One partition of a changelog in memory."""

    def __init__(self, bus: MemoryBus, partition: Partition) -> None:
        """Take it: every earlier holder is fenced."""
        self._bus, self._partition = bus, partition
        bus.epochs[partition] += 1
        self._epoch = bus.epochs[partition]

    def read(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Read all."""
        return [(each.key or b"", each.value) for each in self._bus.log(self._partition)]

    def write(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append, unless fenced."""
        if self._bus.epochs[self._partition] != self._epoch:
            raise FencedError(f"another process took over {self._partition}")
        topic, number = self._partition
        self._bus.send([Message(topic, key, value, (), number) for key, value in entries])

    def close(self) -> None:
        """Nothing to let go of."""


class MemoryBus:
    """A broker in memory, with one number of partitions for every topic."""

    def __init__(self, topics: Iterable[str], partitions: int = 3) -> None:
        """Create the topics."""
        self._count = partitions
        self.topic_ids: dict[str, str] = {}
        self._logs: dict[Partition, list[Record]] = {
            Partition(topic, number): [] for topic in topics for number in range(partitions)
        }
        self._members: dict[str, list[MemorySubscription]] = defaultdict(list)
        self._news = threading.Condition()
        self.committed: dict[str, dict[Partition, int]] = defaultdict(dict)
        self.notes: dict[str, dict[Partition, str]] = defaultdict(dict)
        self.epochs: dict[Partition, int] = defaultdict(int)

    def log(self, partition: Partition) -> list[Record]:
        """All records of a partition, oldest first."""
        return self._logs[partition]

    def records(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        return [each for p, log in self._logs.items() if p.topic == topic for each in log]

    def partitions(self, topic: str) -> int:
        """Count."""
        if Partition(topic, 0) not in self._logs:
            raise ConfigError(f"topic {topic}: there is none")
        return self._count

    def extent(self, partition: Partition) -> Extent:
        """From the first record to the last."""
        topic_id = self.topic_ids.get(partition.topic, partition.topic)
        return Extent(topic_id, 0, len(self.log(partition)))

    def subscribe(
        self, group: str, topics: Sequence[str], listener: Listener
    ) -> MemorySubscription:
        """Join a group."""
        for topic in topics:
            self.partitions(topic)
        member = MemorySubscription(self, group, topics, listener)
        self._members[group].append(member)
        self._rebalance(group)
        return member

    def leave(self, group: str, member: MemorySubscription) -> None:
        """Leave a group; the others share what it held."""
        self._members[group] = [each for each in self._members[group] if each is not member]
        self._rebalance(group)

    def send(self, messages: Sequence[Message]) -> None:
        """Append."""
        with self._news:
            for message in messages:
                number = message.partition
                if number is None:
                    number = crc32(message.key or b"") % self._count
                log = self._logs[Partition(message.topic, number)]
                where = Partition(message.topic, number)
                now = time.time_ns() // 1_000_000
                log.append(
                    Record(where, len(log), message.key, message.value, message.headers, now)
                )
            self._news.notify_all()

    def changelog(self, topic: str, partition: int) -> MemoryChangelog:
        """Take a changelog partition."""
        self.partitions(topic)
        return MemoryChangelog(self, Partition(topic, partition))

    def wait(self, seconds: float) -> None:
        """Wait for a new record, or for the time to pass."""
        with self._news:
            self._news.wait(max(0.0, seconds))

    def close(self) -> None:
        """Refuse nothing, hold nothing."""

    def _rebalance(self, group: str) -> None:
        members = self._members[group]
        for index, member in enumerate(members):
            mine = range(index, self._count, len(members))
            member.reassign(tuple(Partition(t, n) for n in mine for t in member.topics))
