"""Check that the coordinator's rows can be restored and match its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from tidegate.coordinator.store import Position, Store, lost_head, new_changelog
from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.errors.commands import command_line
from tidegate.events.topics import CHANGELOG
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, Broker, not_permitted
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.ops.topics import describe_topics
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.service.assembly import subjects
from tidegate.service.catalogue import COORDINATOR, inputs_of
from tidegate.service.settings import Settings

_CHECK: Final = "state"
_NEARLY_FULL: Final = 0.5
_TOGETHER: Final = 8
"""The maximum number of changelog partitions that one consumer reads into memory together."""
_BYTES_TOGETHER: Final = 32 * 2**20
"""The bytes of their records together, unless one partition alone has more."""
_MEGA: Final = 2**20
Records = Iterable[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class ChangelogSummary:
    """The findings of the changelog, added up over its partitions."""

    tables: int = 0
    largest: int = 0
    """Bytes of the largest record, before compression."""
    largest_of: str = ""
    """The table of that record."""
    faults: list[str] = field(default_factory=list[str])
    separated: str = ""
    """Why tables have their state on another partition than their events; empty if they match."""

    def add(self, store: Store, partitions: int | None = None) -> None:
        """Count what a partition's state holds, once its changelog is read.

        Args:
            store: With the partition's records.
            partitions: How many partitions the topics have; None: not compared.
        """
        self.tables += len(store.tables())
        if partitions is not None:
            try:
                store.position.check_partitions(partitions)
            except ConfigError as error:
                self.separated = str(error)

    def compare(
        self, position: Position, inputs: Iterable[tuple[str, Watermarks, int | None]]
    ) -> None:
        """Compare a partition's positions with its input topics.

        Args:
            position: The partition's.
            inputs: For each input topic its name, its watermarks and the group's committed offset.
        """
        for topic, watermarks, start in inputs:
            try:
                position.check(topic, watermarks, start)
            except OffsetGapError as error:
                self.faults.append(str(error))

    def merge(self, other: ChangelogSummary) -> None:
        """Add the findings of other partitions."""
        self.tables += other.tables
        if other.largest > self.largest:
            self.largest, self.largest_of = other.largest, other.largest_of
        self.faults += other.faults
        self.separated = self.separated or other.separated

    def measured(self, records: Records) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the records unchanged, and remember the largest one."""
        for key, value in records:
            if (size := len(value or b"")) > self.largest:
                table = key.partition(b"\x00")[0].decode(errors="replace")
                self.largest, self.largest_of = size, table or "the position"
            yield key, value

    def finding(self, max_bytes: int | None) -> Finding:
        """The result of the check; `max_bytes` is the changelog's `max.message.bytes`."""
        if self.separated:
            advice = "move to new topics: see More partitions in docs/topics.md"
            return Finding(_CHECK, Status.FAIL, self.separated, advice)
        if self.faults:
            advice = f"stop the coordinator, then run: {_again()}"
            more = f" (and {len(self.faults) - 1} more)" if self.faults[1:] else ""
            return Finding(_CHECK, Status.FAIL, self.faults[0] + more, advice)
        seen = f"{self.tables} tables can be restored"
        if max_bytes is None or self.largest <= _NEARLY_FULL * max_bytes:
            return Finding(_CHECK, Status.OK, seen)
        seen += (
            f"; the record of {self.largest_of} has {self.largest / _MEGA:.1f} MB before"
            f" compression, and the changelog accepts {max_bytes / _MEGA:.1f} MB after it"
        )
        advice = (
            "raise max.message.bytes of the changelog, or see why this table's state is large:"
            f" {command_line('waiting')}"
        )
        return Finding(_CHECK, Status.WARN, seen, advice)


def _again() -> str:
    return command_line("replay group", COORDINATOR, to_earliest=True, execute=True)


def check_state(broker: Broker) -> Finding:
    """Restore the coordinator's rows read-only: fence nothing, and write nothing."""
    topic = CHANGELOG.name(broker.topics.prefix)
    try:
        found = describe_topics(broker.admin, [topic], REQUEST_TIMEOUT).get(topic)
        if found is None:
            return Finding(_CHECK, Status.SKIPPED, f"topic {topic} does not exist")
        summary = _read(broker, found.partitions)
    except ConfigError as error:
        return not_permitted(_CHECK, error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in DENIED:
            return not_permitted(_CHECK, error)
        return Finding(_CHECK, Status.FAIL, str(error), new_changelog(topic))
    limit = (found.settings or {}).get("max.message.bytes")
    return summary.finding(int(limit) if limit else None)


def _read(broker: Broker, partitions: int) -> ChangelogSummary:
    prefix, kinds = broker.topics.prefix, subjects(Settings()).kinds
    topic = CHANGELOG.name(prefix)
    inputs = [found.name(prefix) for found in inputs_of(COORDINATOR)]
    # This order avoids false alarms while the coordinator runs: it writes its changelog before it
    # commits, and its inputs grow meanwhile.
    parts = [Partition(name, number) for name in inputs for number in range(partitions)]
    starts = broker.groups.committed(f"{prefix}.{COORDINATOR}", parts)
    metadata = KafkaMetadata(broker.connection)
    spans = metadata.spans(topic)
    for part, span in spans.items():
        if lost := lost_head(part, span.start):
            raise StopService(lost)
    whole, positions = ChangelogSummary(), dict[int, Position]()
    first, largest = 0, _BYTES_TOGETHER  # nothing is known of them yet, so the first is read alone
    while first < partitions:
        together = max(1, min(_TOGETHER, _BYTES_TOGETHER // max(1, largest)))
        numbers = range(first, min(first + together, partitions))
        first = numbers.stop
        stores = {number: Store(kinds) for number in numbers}
        chosen = {part: span for part, span in spans.items() if part.number in stores}
        records = read_spans(broker.connection, chosen, on_missing_offset="earliest")
        read = _restore(stores, records, whole)
        largest = max(read.values(), default=0)
        for number in numbers:
            store = stores.pop(number)
            whole.add(store, partitions)
            positions[number] = store.position
            store.close()
    parts = [Partition(name, number) for number in positions for name in inputs]
    marks = metadata.watermarks(parts)
    for number, position in positions.items():
        own = (Partition(name, number) for name in inputs)
        whole.compare(position, [(part.topic, marks[part], starts.get(part)) for part in own])
    return whole


def _restore(
    stores: Mapping[int, Store], records: Iterable[Record], summary: ChangelogSummary
) -> Counter[int]:
    """Restore partitions as the coordinator would, from records of all of them.

    Returns:
        The bytes of the records, by partition.
    """
    read = Counter[int]()
    found: dict[int, list[tuple[bytes, bytes | None]]] = {number: [] for number in stores}
    for record in records:
        where = record.partition
        if record.unreadable:
            raise StopService(f"{where.topic}[{where.number}]@{record.offset}: {record.unreadable}")
        entry = (record.key or b"", record.value)
        found[where.number].append(entry)
        read[where.number] += len(entry[0]) + len(entry[1] or b"")
    for number, store in stores.items():
        store.restore(summary.measured(found.pop(number)))
    return read
