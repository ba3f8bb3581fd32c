"""What the loops need from a broker: one protocol, and what tells its topics apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from tidegate.errors import ConfigError, OffsetGapError, StopService
from tidegate.errors.commands import command_line
from tidegate.events.codec import Headers
from tidegate.publisher import Message


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


Offsets = Mapping[Partition, int]
CommitMetadata = Mapping[Partition, str]
"""Text that the broker stores with the committed offset of a partition."""
NO_METADATA: Final[CommitMetadata] = MappingProxyType({})


class Record(NamedTuple):
    """A message as the broker stores it. `timestamp_ms` is when the broker appended it.

    If the client can't read a message, `unreadable` has the reason and only the location is known;
    if it can't read the headers only, key and value are known.
    `is_brokers_time` is false where the topic has its publishers' times instead.
    """

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    unreadable: str = ""
    is_brokers_time: bool = True


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets that a partition has: from `first` up to, not including, `end`.

    `end` is the first offset that can't be read yet. `topic_id` is given by the broker: a topic
    that was deleted and created again has a new one.
    """

    topic_id: str
    first: int
    end: int


class RebalanceListener(Protocol):
    """Called at every change of ownership, from inside `Subscription.poll` and `close`."""

    def assigned(self, starts: Offsets) -> None:
        """These partitions are ours, read from these offsets; records follow once this returns."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """These partitions will go to another member; finished work may still be committed here."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Another member already has these partitions: discard their work, commit nothing."""
        ...


class Subscription(Protocol):
    """A member of a consumer group. Only one thread calls it, and it calls `poll` regularly."""

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Return up to `limit` records, waiting up to `timeout` seconds for the first.

        Raises:
            OffsetGapError: a committed offset is no longer in its topic, or a topic was deleted and
                created again.
            StopService: a topic has more partitions now, or the broker refuses access for good.
        """
        ...

    def ends(self) -> Offsets:
        """By partition, the offset before which `poll` has returned every record.

        It has only partitions that were read to an end at least once since their assignment. An end
        may be beyond the last record: transactions leave offsets without a record. Commit it in
        place of the offset after the last record, or the group lags by those offsets forever.
        """
        ...

    def commit(
        self, at: Offsets, metadata: CommitMetadata = NO_METADATA, *, wait: bool = False
    ) -> None:
        """Commit offsets: for each partition that of the next record to read.

        Args:
            at: The offsets.
            metadata: Text to store with them, at most 2,000 characters for a partition.
            wait: Return only once the broker has answered.
        """
        ...

    def committed_metadata(self, partition: Partition) -> str:
        """The metadata with the committed offset of an assigned partition; may be empty."""
        ...

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no more records of these partitions; the membership continues."""
        ...

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these partitions again."""
        ...

    def close(self) -> None:
        """Leave the group; `revoked` is called first."""
        ...


ChangelogRecord = tuple[bytes, bytes | None]
"""A key and its value; None removes the key."""


class Changelog(Protocol):
    """The coordinator's stored rows. Acquiring partitions fences every earlier writer of them."""

    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterable[tuple[int, Sequence[ChangelogRecord]]]:
        """Own these partitions and no others, once the caller has consumed all that is yielded.

        Args:
            numbers: The partitions.
            kept: Those of them that this object owned last and for which nothing is unwritten. One
                of these is yielded completely if another process has written to it since, else
                not at all. After a fault the yielded ones are no longer kept.

        Yields:
            Records of a partition, oldest first; a later value of a key replaces an earlier one.

        Raises:
            StopService: another process has acquired one of them meanwhile.
            TransientError: the broker does not answer now. Acquire all of them again.
        """
        ...

    def write(self, entries: Mapping[int, Sequence[ChangelogRecord]]) -> None:
        """Append to partitions, to each in this order. Returns when the broker has all of it.

        Raises:
            StopService: another process has acquired one of them; nothing was written.
        """
        ...

    def appended_ms(self) -> int | None:
        """When the broker appended what this object wrote last, in ms since the epoch.

        None before anything was acquired.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Bus(Protocol):
    """A broker."""

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic.

        Raises:
            ConfigError: the topic does not exist.
        """
        ...

    def cluster_id(self) -> str:
        """The id of the cluster, which no other cluster has.

        Raises:
            TransientError: the broker did not answer.
        """
        ...

    def max_message_bytes(self, topic: str) -> int:
        """The largest message that a topic accepts.

        Raises:
            TransientError: the broker did not answer.
            StopService: the topic's settings may not be described.
        """
        ...

    def watermarks(self, partitions: Collection[Partition]) -> Mapping[Partition, Watermarks]:
        """The first and the end offsets of partitions.

        Raises:
            TransientError: the broker did not answer.
        """
        ...

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        watched: Sequence[str] = (),
    ) -> Subscription:
        """Join a consumer group. A new group reads its topics from their beginning.

        The member stops before it acknowledges anything of a topic that was deleted and created
        again, or got more partitions; likewise for the topics that are only `watched`.
        """
        ...

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; returns when the broker has all of them. Thread-safe.

        Raises:
            DeliveryError: at least one was not confirmed.
        """
        ...

    def log(self, partition: Partition) -> Iterable[Record]:
        """Read a partition to its current end, outside of any group."""
        ...

    def changelog(self, topic: str) -> Changelog:
        """Open a changelog; it owns no partition yet."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


def require_copartitioned(bus: Bus, topics: Iterable[str]) -> int:
    """The number of partitions, the same for all of these topics.

    Raises:
        ConfigError: a topic does not exist, or the numbers differ: a table's events, or its events
            and its state, would be on partitions of different numbers.
    """
    counts = {topic: bus.partitions(topic) for topic in topics}
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
        raise ConfigError(f"these topics must have the same number of partitions: {listed}")
    return counts.popitem()[1]


class TopicIdentity(NamedTuple):
    """The broker's id of a topic, and its number of partitions.

    A topic that is deleted and created again has the same name, so a consumer would continue at its
    old offset and skip the new topic's earlier records. Only the broker's topic id differs. A topic
    that gets more partitions has the events of one table on two of them.
    """

    topic_id: str
    partitions: int


def require_same_topic(group: str, topic: str, before: TopicIdentity, now: TopicIdentity) -> None:
    """Compare a topic with what it was when the group's member joined.

    Raises:
        OffsetGapError: it was deleted and created again.
        StopService: it has another number of partitions.
    """
    service = group.rpartition(".")[2]
    if now.topic_id != before.topic_id:
        raise OffsetGapError(
            f"{topic} was deleted and created again while {group} was using it: records may have"
            " been skipped; nothing of the new topic was acknowledged. Find out what is missing;"
            " to continue with what the topics have now:"
            f" {command_line('replay group', service, to_earliest=True, execute=True)}"
        )
    if now.partitions != before.partitions:
        raise StopService(
            f"{topic} has {now.partitions} partitions, it had {before.partitions} when {service}"
            " started: new events of a table may be on another partition than its earlier ones."
            f" Compare all topics with: {command_line('topics check')}"
        )
