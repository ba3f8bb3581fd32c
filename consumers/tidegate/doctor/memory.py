"""Can a decider's memory be read back, and does it belong to the topics of today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from tidegate.doctor.broker import SECONDS, Broker, unseen
from tidegate.doctor.finding import DENIED, Finding, State
from tidegate.doctor.offsets import committed_by
from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.events.topics import changelog, topic_of
from tidegate.runtime.bus import Extent, Partition
from tidegate.runtime.kafka_metadata import KafkaMetadata
from tidegate.runtime.kafka_reading import read_partition
from tidegate.runtime.kafka_records import as_bytes
from tidegate.runtime.ledger import Ledger, ledger_for
from tidegate.services.assembly import HEARD, decider_of
from tidegate.settings import Settings
from tidegate.topics import look

_CROWDED: Final = 0.5
_MEGA: Final = 2**20
Entries = Iterable[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class Remembered:
    """What was seen of a decider's changelog, one partition after the other."""

    tables: int = 0
    largest: int = 0
    """Bytes of the largest record, before compression."""
    of: str = ""
    """Whose it is."""
    faults: list[str] = field(default_factory=list[str])

    def add(
        self,
        ledger: Ledger[Any],
        entries: Entries,
        inputs: Iterable[tuple[str, Extent, int | None]],
    ) -> None:
        """Read a partition back as its decider would.

        Args:
            ledger: An empty one.
            entries: What the changelog's partition holds.
            inputs: For each input topic its name, what it holds and where the group goes on.

        Raises:
            FormatError: it can't be read.
            StopService: what is kept of a table can't be read.
        """
        ledger.restore(self._weighed(entries))
        self.tables += sum(1 for _ in ledger.entries_kept())
        for topic, extent, start in inputs:
            try:
                ledger.check(topic, extent, start)
            except OffsetGapError as error:
                self.faults.append(str(error))

    def _weighed(self, entries: Entries) -> Iterator[tuple[bytes, bytes | None]]:
        for key, value in entries:
            if (size := len(value or b"")) > self.largest:
                self.largest, self.of = size, key.decode(errors="replace")
            yield key, value

    def finding(self, decider: str, most: int | None) -> Finding:
        """Say how it looks; `most` is the largest record that the changelog takes, in bytes."""
        check = f"memory {decider}"
        if self.faults:
            advice = f"stop it, then: tidegate replay group {decider} --to-earliest --execute"
            more = f" (and {len(self.faults) - 1} more)" if self.faults[1:] else ""
            return Finding(check, State.FAIL, self.faults[0] + more, advice)
        seen = f"{self.tables} tables can be read back"
        if most is None or self.largest <= _CROWDED * most:
            return Finding(check, State.OK, seen)
        seen += (
            f"; that of {self.of} takes {self.largest / _MEGA:.1f} MB before compression,"
            f" and the changelog no more than {most / _MEGA:.1f} MB after it"
        )
        advice = "see what this table waits for, or raise max.message.bytes of the changelog"
        return Finding(check, State.WARN, seen, advice)


def memory_kept(broker: Broker, decider: str) -> Finding:
    """Read a decider's changelog from the side: nobody is shut out, nothing is written."""
    check, prefix = f"memory {decider}", broker.topics.prefix
    topic = changelog(decider).name(prefix)
    try:
        found = look(broker.admin, [topic], SECONDS).get(topic)
        if found is None:
            return Finding(check, State.SKIPPED, f"{topic} is not there")
        remembered = _read(broker, decider, found.partitions)
    except ConfigError as error:
        return unseen(check, error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in DENIED:
            return unseen(check, error)
        advice = (
            f"stop it, delete {topic}, then: tidegate topics create, and tidegate replay group"
            f" {decider} --to-earliest --execute; what is older than its topics is forgotten"
        )
        return Finding(check, State.FAIL, str(error), advice)
    most = (found.settings or {}).get("max.message.bytes")
    return remembered.finding(decider, int(most) if most else None)


def _read(broker: Broker, decider: str, partitions: int) -> Remembered:
    prefix, kind = broker.topics.prefix, decider_of(decider, Settings())
    inputs = sorted({topic_of(each).name(prefix) for each in HEARD[decider]})
    # in this order: a decider at work remembers before it acknowledges, and more arrives meanwhile
    starts = committed_by(broker.admin, f"{prefix}.{decider}", inputs)
    metadata, seen = KafkaMetadata(broker.connection), Remembered()
    for number in range(partitions):
        log = read_partition(broker.connection, changelog(decider).name(prefix), number)
        entries = ((as_bytes(each.key()) or b"", as_bytes(each.value())) for each in log)
        parts = [Partition(each, number) for each in inputs]
        extents = ((each.topic, metadata.extent(each), starts.get(each)) for each in parts)
        seen.add(ledger_for(kind.state_type, kind.initial()), entries, extents)
    return seen
