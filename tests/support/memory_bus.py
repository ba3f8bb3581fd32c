"""The bus in memory, under the same rules (tests/runtime/test_bus_conformance.py)."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from tidegate.errors import ConfigError, OffsetGapError, StopService
from tidegate.events.topics import partition_of_key
from tidegate.publisher import Message
from tidegate.runtime.bus import (
    NO_METADATA,
    ChangelogRecord,
    CommitMetadata,
    Offsets,
    Partition,
    RebalanceListener,
    Record,
    TopicIdentity,
    Watermarks,
    require_same_topic,
)


class MemoryChangelog:
    """Partitions of a changelog in memory."""

    def __init__(self, bus: MemoryBus, topic: str) -> None:
        """Own nothing yet."""
        self._bus, self._topic = bus, topic
        self._epochs: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        """By partition, its number of records when this object last read or wrote it."""

    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        """Fence every earlier writer, then read."""
        self._epochs.clear()
        for number in sorted(numbers):
            where = Partition(self._topic, number)
            self._bus.epochs[where] += 1
            self._epochs[number] = self._bus.epochs[where]
            records = self._bus.log(where)
            changed = number not in kept or len(records) != self._ends.get(number)
            if records and changed:
                yield number, [(record.key or b"", record.value) for record in records]
            self._ends[number] = len(records)

    def write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        """Append, unless fenced in one of the partitions."""
        for number in entries:
            where = Partition(self._topic, number)
            if self._bus.epochs[where] != self._epochs.get(number):
                raise StopService(f"another process has opened {where} since")
        for number, records in entries.items():
            self._bus.send([Message(self._topic, key, value, (), number) for key, value in records])
            self._ends[number] = len(self._bus.log(Partition(self._topic, number)))

    def appended_ms(self) -> int:
        """The time of the bus."""
        return self._bus.now_ms()

    def close(self) -> None:
        """Nothing to close."""


class MemorySubscription:
    """A member of a consumer group in memory."""

    def __init__(
        self,
        bus: MemoryBus,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        watched: Sequence[str] = (),
    ) -> None:
        """Join; partitions arrive with the first poll."""
        self._bus, self._group, self._listener = bus, group, listener
        self._joined = {topic: bus.identity(topic) for topic in (*topics, *watched)}
        self.topics = tuple(topics)
        self._next_assignment: tuple[Partition, ...] | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._expelled = False

    def reassign(self, partitions: tuple[Partition, ...]) -> None:
        """Assign partitions to the member at its next poll (called by the bus)."""
        self._next_assignment = partitions

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Wait for a first record; return the available ones."""
        self._follow_assignment()
        deadline = time.monotonic() + timeout
        while True:
            records = self._fetch(limit)
            if records or time.monotonic() >= deadline:
                return records
            self._bus.wait(deadline - time.monotonic())

    def ends(self) -> dict[Partition, int]:
        """The positions that are at the end: every offset holds a record."""
        return {p: at for p, at in self._positions.items() if at >= len(self._bus.log(p))}

    def commit(
        self,
        at: Offsets,
        metadata: CommitMetadata = NO_METADATA,
        *,
        wait: bool = False,  # noqa: ARG002 - a commit in memory never waits
    ) -> None:
        """Commit the offsets of partitions that are still assigned."""
        self._require_same_topics()
        owned = (
            []
            if self._expelled
            else [partition for partition in at if partition in self._positions]
        )
        self._bus.committed[self._group].update({partition: at[partition] for partition in owned})
        self._bus.commit_metadata[self._group].update(
            {partition: metadata.get(partition, "") for partition in owned}
        )

    def committed_metadata(self, partition: Partition) -> str:
        """Look it up."""
        return self._bus.commit_metadata[self._group].get(partition, "")

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
        """Remove the member from the group without its knowledge, as a session time-out does."""
        self._expelled = True
        self._bus.leave(self._group, self)

    def _follow_assignment(self) -> None:
        if self._expelled and self._positions:
            self._listener.lost(tuple(self._positions))
            self._positions = {}
        if self._next_assignment is None:
            return
        assignment, self._next_assignment = self._next_assignment, None
        if self._positions:
            self._listener.revoked(tuple(self._positions))
        self._positions = {}
        self._paused = set()
        if assignment:
            self._require_same_topics()
            starts = {partition: self._start(partition) for partition in assignment}
            self._listener.assigned(starts)
            self._positions = starts

    def _require_same_topics(self) -> None:
        for topic, before in self._joined.items():
            require_same_topic(self._group, topic, before, self._bus.identity(topic))

    def _start(self, partition: Partition) -> int:
        at = self._bus.committed[self._group].get(partition, 0)
        end = len(self._bus.log(partition))
        if at > end:
            raise OffsetGapError(
                f"{self._group}: offset {at} of {partition} is beyond its end, {end}"
            )
        return at

    def _fetch(self, limit: int) -> list[Record]:
        taken: list[Record] = []
        for partition, at in self._positions.items():
            if partition not in self._paused and len(taken) < limit:
                new = self._bus.log(partition)[at : at + limit - len(taken)]
                self._positions[partition] = at + len(new)
                taken += new
        return taken


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
        self._arrival = threading.Condition()
        self.committed: dict[str, dict[Partition, int]] = defaultdict(dict)
        self.commit_metadata: dict[str, dict[Partition, str]] = defaultdict(dict)
        self.epochs: dict[Partition, int] = defaultdict(int)
        self.now_ms: Callable[[], int] = _system_ms
        """The broker's clock, in ms since the epoch."""

    def log(self, partition: Partition) -> list[Record]:
        """All records of a partition, oldest first."""
        return self._logs[partition]

    def records(self, topic: str) -> list[Record]:
        """All records of a topic, partition by partition."""
        return [record for p, log in self._logs.items() if p.topic == topic for record in log]

    def partitions(self, topic: str) -> int:
        """The same number for every topic."""
        if Partition(topic, 0) not in self._logs:
            raise ConfigError(f"topic {topic} does not exist")
        return self._count

    def cluster_id(self) -> str:
        """The same for every bus in memory."""
        return "memory"

    def max_message_bytes(self, topic: str) -> int:  # noqa: ARG002 - the protocol's
        """A broker's default."""
        return 2**20

    def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        """Nothing is ever deleted: the first offset is 0."""
        return {
            partition: Watermarks(
                self.identity(partition.topic).topic_id, 0, len(self.log(partition))
            )
            for partition in partitions
        }

    def identity(self, topic: str) -> TopicIdentity:
        """The topic's id and number of partitions."""
        return TopicIdentity(self.topic_ids.get(topic, topic), self.partitions(topic))

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again: empty, and with another id."""
        self.topic_ids[topic] = f"{self.identity(topic).topic_id}-again"
        for number in range(self._count):
            self._logs[Partition(topic, number)].clear()

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        watched: Sequence[str] = (),
    ) -> MemorySubscription:
        """Join a group."""
        for topic in topics:
            self.partitions(topic)
        member = MemorySubscription(self, group, topics, listener, watched=watched)
        self._members[group].append(member)
        self._rebalance(group)
        return member

    def leave(self, group: str, member: MemorySubscription) -> None:
        """Leave a group; its partitions go to the other members."""
        self._members[group] = [other for other in self._members[group] if other is not member]
        self._rebalance(group)

    def send(self, messages: Sequence[Message]) -> None:
        """Append."""
        with self._arrival:
            for message in messages:
                number = message.partition
                if number is None:
                    number = partition_of_key(message.key or b"", self._count)
                log = self._logs[Partition(message.topic, number)]
                where = Partition(message.topic, number)
                now = self.now_ms()
                log.append(
                    Record(where, len(log), message.key, message.value, message.headers, now)
                )
            self._arrival.notify_all()

    def changelog(self, topic: str) -> MemoryChangelog:
        """Open a changelog."""
        self.partitions(topic)
        return MemoryChangelog(self, topic)

    def wait(self, seconds: float) -> None:
        """Wait until a record arrives or the time has passed."""
        with self._arrival:
            self._arrival.wait(max(0.0, seconds))

    def close(self) -> None:
        """Nothing to close."""

    def _rebalance(self, group: str) -> None:
        members = self._members[group]
        for index, member in enumerate(members):
            mine = range(index, self._count, len(members))
            member.reassign(tuple(Partition(t, n) for n in mine for t in member.topics))


def _system_ms() -> int:
    return time.time_ns() // 1_000_000
