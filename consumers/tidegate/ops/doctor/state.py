"""Check that the coordinator's rows can be restored and match its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from confluent_kafka import KafkaException

from tidegate.coordinator.store import POSITION_KEY, Position, Store, lost_head, new_changelog
from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.errors.commands import command_line
from tidegate.events.topics import CHANGELOG
from tidegate.ops.doctor.broker import Broker, not_permitted
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.service.assembly import subjects
from tidegate.service.catalogue import COORDINATOR, inputs_of
from tidegate.service.settings import Settings

_CHECK: Final = "state"
_TOGETHER: Final = 1000
"""Records that are decoded together: no more than these are in memory."""


def check_state(broker: Broker) -> Finding:
    """Read the coordinator's changelog: fence nothing, and write nothing."""
    prefix = broker.topics.prefix
    topic = CHANGELOG.name(prefix)
    inputs = [found.name(prefix) for found in inputs_of(COORDINATOR)]
    try:
        spans = broker.spans([topic])
        if not spans:
            return Finding(_CHECK, Status.SKIPPED, f"topic {topic} does not exist")
        for part, span in spans.items():
            if lost := lost_head(part, span.start):
                raise StopService(lost)  # noqa: TRY301 - as if the changelog were read
        # This order avoids false alarms while the coordinator runs: it writes its changelog before
        # it commits, and its inputs grow meanwhile.
        parts = [Partition(name, part.number) for part in spans for name in inputs]
        starts = broker.groups.committed(f"{prefix}.{COORDINATOR}", parts)
        state = read_state(read_spans(broker.connection, spans, on_missing_offset="earliest"))
        return state.compared(broker.metadata.watermarks(parts), starts, len(spans))
    except ConfigError as error:
        return not_permitted(_CHECK, error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in DENIED:
            return not_permitted(_CHECK, error)
        return Finding(_CHECK, Status.FAIL, str(error), new_changelog(topic))


@dataclass(frozen=True, slots=True)
class State:
    """What the changelog holds."""

    tables: set[str] = field(default_factory=set[str])
    positions: dict[int, Position] = field(default_factory=dict[int, Position])
    """By partition number."""

    def compared(
        self, inputs: Mapping[Partition, Watermarks], starts: Mapping[Partition, int], count: int
    ) -> Finding:
        """Compare the positions with the topics. Pure.

        Args:
            inputs: The watermarks of every input partition.
            starts: The group's committed offsets.
            count: How many partitions the topics have.
        """
        faults: list[str] = []
        for part, watermarks in inputs.items():
            position = self.positions.setdefault(part.number, Position())
            try:
                position.check_partitions(count)
                position.check(part.topic, watermarks, starts.get(part))
            except ConfigError as error:
                advice = "move to new topics: see More partitions in docs/topics.md"
                return Finding(_CHECK, Status.FAIL, str(error), advice)
            except OffsetGapError as error:
                faults.append(str(error))
        if faults:
            more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
            advice = f"stop the coordinator, then run: {_again()}"
            return Finding(_CHECK, Status.FAIL, faults[0] + more, advice)
        return Finding(_CHECK, Status.OK, f"{len(self.tables)} tables can be restored")


def read_state(records: Iterable[Record]) -> State:
    """Decode every row, as the coordinator would, and take the last position of each partition.

    Raises:
        FormatError, StopService: a record can't be read.
    """
    state, kinds, left = State(), subjects(Settings()).kinds, iter(records)
    while batch := list(islice(left, _TOGETHER)):
        rows: list[tuple[bytes, bytes | None]] = []
        for record in batch:
            where = record.partition
            if record.unreadable:
                at = f"{where.topic}[{where.number}]@{record.offset}"
                raise StopService(f"{at}: {record.unreadable}")
            if record.key == POSITION_KEY:
                state.positions[where.number] = Position.of(record.value or b"{}")
            else:
                rows.append((record.key or b"", record.value))
        with closing(Store(kinds)) as store:
            store.restore([*rows, Position().record()])
            state.tables.update(store.tables())
    return state


def _again() -> str:
    return command_line("replay group", COORDINATOR, to_earliest=True, execute=True)
