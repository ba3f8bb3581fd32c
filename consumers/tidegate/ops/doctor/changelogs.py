"""Can a decider's state be restored from its changelog, and does it fit the topics of today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.events.topics import changelog, topic_of
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, Broker, not_permitted
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.ops.topics import describe_topics
from tidegate.runtime.bus import Partition, Watermarks
from tidegate.runtime.decider.state_store import StateStore, store_of
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import read_partition
from tidegate.runtime.kafka.records import as_bytes
from tidegate.service.assembly import CONSUMED_EVENTS, decider_of
from tidegate.service.settings import Settings

_NEARLY_FULL: Final = 0.5
_READERS: Final = 8
"""Changelog partitions that are read at the same time."""
_MEGA: Final = 2**20
Records = Iterable[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class ChangelogSummary:
    """What was found in a decider's changelog, partition after partition."""

    tables: int = 0
    largest: int = 0
    """Bytes of the largest record, before compression."""
    largest_of: str = ""
    """The table of that record."""
    faults: list[str] = field(default_factory=list[str])
    separated: str = ""
    """Why tables have their state on another partition than their events; empty if none has."""

    def add(
        self,
        store: StateStore[Any],
        records: Records,
        inputs: Iterable[tuple[str, Watermarks, int | None]],
        partitions: int | None = None,
    ) -> None:
        """Restore a partition as its decider would.

        Args:
            store: An empty one.
            records: The content of the changelog's partition.
            inputs: For each input topic its name, its watermarks and the group's committed offset.
            partitions: How many partitions the topics have; None: not compared.

        Raises:
            FormatError: the changelog cannot be decoded.
            StopService: the record of a table cannot be decoded.
        """
        store.restore(self._measured(records))
        self.tables += sum(1 for _ in store.tables())
        if partitions is not None:
            try:
                store.check_partitions(partitions)
            except ConfigError as error:
                self.separated = str(error)
        for topic, watermarks, start in inputs:
            try:
                store.check(topic, watermarks, start)
            except OffsetGapError as error:
                self.faults.append(str(error))

    def merge(self, other: ChangelogSummary) -> None:
        """Add what was found in other partitions."""
        self.tables += other.tables
        if other.largest > self.largest:
            self.largest, self.largest_of = other.largest, other.largest_of
        self.faults += other.faults
        self.separated = self.separated or other.separated

    def _measured(self, records: Records) -> Iterator[tuple[bytes, bytes | None]]:
        for key, value in records:
            if (size := len(value or b"")) > self.largest:
                self.largest, self.largest_of = size, key.decode(errors="replace")
            yield key, value

    def finding(self, decider: str, max_bytes: int | None) -> Finding:
        """The result of the check; `max_bytes` is the largest record that the changelog accepts."""
        check = f"state {decider}"
        if self.separated:
            advice = "stop all services, then run: tidegate topics grow --partitions N --execute"
            return Finding(check, Status.FAIL, self.separated, advice)
        if self.faults:
            advice = f"stop it, then run: tidegate replay group {decider} --to-earliest --execute"
            more = f" (and {len(self.faults) - 1} more)" if self.faults[1:] else ""
            return Finding(check, Status.FAIL, self.faults[0] + more, advice)
        seen = f"{self.tables} tables can be restored"
        if max_bytes is None or self.largest <= _NEARLY_FULL * max_bytes:
            return Finding(check, Status.OK, seen)
        seen += (
            f"; the record of {self.largest_of} has {self.largest / _MEGA:.1f} MB before"
            f" compression, and the changelog accepts {max_bytes / _MEGA:.1f} MB after it"
        )
        advice = "see what this table waits for, or raise max.message.bytes of the changelog"
        return Finding(check, Status.WARN, seen, advice)


def check_state(broker: Broker, decider: str) -> Finding:
    """Restore a decider's changelog read-only: no decider is fenced, nothing is written."""
    check, prefix = f"state {decider}", broker.topics.prefix
    topic = changelog(decider).name(prefix)
    try:
        found = describe_topics(broker.admin, [topic], REQUEST_TIMEOUT).get(topic)
        if found is None:
            return Finding(check, Status.SKIPPED, f"topic {topic} does not exist")
        summary = _read(broker, decider, found.partitions)
    except ConfigError as error:
        return not_permitted(check, error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in DENIED:
            return not_permitted(check, error)
        advice = (
            f"stop it, delete {topic}, then run: tidegate topics create, and tidegate replay group"
            f" {decider} --to-earliest --execute; events older than its topics are lost to it"
        )
        return Finding(check, Status.FAIL, str(error), advice)
    limit = (found.settings or {}).get("max.message.bytes")
    return summary.finding(decider, int(limit) if limit else None)


def _read(broker: Broker, decider: str, partitions: int) -> ChangelogSummary:
    prefix, kind = broker.topics.prefix, decider_of(decider, Settings())
    inputs = sorted({topic_of(each).name(prefix) for each in CONSUMED_EVENTS[decider]})
    # offsets, then changelog, then watermarks: a running decider writes its changelog before it
    # commits, and its inputs grow meanwhile
    starts = broker.groups.committed(f"{prefix}.{decider}")
    metadata = KafkaMetadata(broker.connection)

    def read(number: int) -> ChangelogSummary:
        summary = ChangelogSummary()
        log = read_partition(broker.connection, changelog(decider).name(prefix), number)
        records = ((as_bytes(each.key()) or b"", as_bytes(each.value())) for each in log)
        parts = [Partition(each, number) for each in inputs]
        summary.add(store_of(kind), records, _after(metadata, parts, starts), partitions)
        return summary

    whole = ChangelogSummary()
    with ThreadPoolExecutor(_READERS) as pool:
        for each in pool.map(read, range(partitions)):
            whole.merge(each)
    return whole


def _after(
    metadata: KafkaMetadata, parts: Sequence[Partition], starts: Mapping[Partition, int]
) -> Iterator[tuple[str, Watermarks, int | None]]:
    """The watermarks of all inputs in one request, once the changelog was read."""
    found = metadata.watermarks(parts)
    yield from ((each.topic, found[each], starts.get(each)) for each in parts)
