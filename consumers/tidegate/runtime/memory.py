"""The bus in memory: for tests and for trying a policy out. It keeps to the same rules."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from zlib import crc32

from tidegate.errors import ConfigError, FencedError, OffsetGapError
from tidegate.publisher import Message
from tidegate.runtime.bus import NO_NOTES, Extent, Listener, Notes, Partition, Positions, Record


class MemorySubscription:
    """A member of a consumer group in memory."""

    def __init__(
        self, bus: MemoryBus, group: str, topics: Sequence[str], listener: Listener
    ) -> None:
        """Join; partitions arrive with the first poll."""
        self._bus, self._group, self._listener = bus, group, listener
        self.topics = tuple(topics)
        self._wanted: tuple[Partition, ...] | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._expelled = False

    def reassign(self, partitions: tuple[Partition, ...]) -> None:
        """Give the member its new partitions at its next poll (called by the bus)."""
        self._wanted = partitions

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Take what is there, waiting for a first record."""
        self._follow_assignment()
        deadline = time.monotonic() + timeout
        while True:
            records = self._take(limit)
            if records or time.monotonic() >= deadline:
                return records
            self._bus.wait(deadline - time.monotonic())

    def commit(self, at: Positions, notes: Notes = NO_NOTES, *, wait: bool = False) -> None:  # noqa: ARG002
        """Commit those that are still ours."""
        held = [] if self._expelled else [each for each in at if each in self._positions]
        self._bus.committed[self._group].update({each: at[each] for each in held})
        self._bus.notes[self._group].update({each: notes.get(each, "") for each in held})

    def noted(self, partition: Partition) -> str:
        """Look it up."""
        return self._bus.notes[self._group].get(partition, "")

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pause."""
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Resume."""
        self._paused -= set(partitions)

    def close(self) -> None:
        """Leave the group."""
        if self._positions:
            self._listener.revoked(tuple(self._positions))
        self._positions = {}
        self._bus.leave(self._group, self)

    def expel(self) -> None:
        """Take the partitions away behind the member's back, as a time-out does."""
        self._expelled = True
        self._bus.leave(self._group, self)

    def _follow_assignment(self) -> None:
        if self._expelled and self._positions:
            self._listener.lost(tuple(self._positions))
            self._positions = {}
        if self._wanted is None:
            return
        wanted, self._wanted = self._wanted, None
        if self._positions:
            self._listener.revoked(tuple(self._positions))
        self._positions = {}
        self._paused = set()
        if wanted:
            starts = {each: self._start(each) for each in wanted}
            self._listener.assigned(starts)
            self._positions = starts

    def _start(self, partition: Partition) -> int:
        at = self._bus.committed[self._group].get(partition, 0)
        end = len(self._bus.log(partition))
        if at > end:
            raise OffsetGapError(f"{self._group}: offset {at} of {partition}, which ends at {end}")
        return at

    def _take(self, limit: int) -> list[Record]:
        taken: list[Record] = []
        for partition, at in self._positions.items():
            if partition not in self._paused and len(taken) < limit:
                new = self._bus.log(partition)[at : at + limit - len(taken)]
                self._positions[partition] = at + len(new)
                taken += new
        return taken


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
