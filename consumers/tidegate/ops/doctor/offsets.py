"""Whether committed offsets and the coordinator's rows match the topics, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.coordinator.store import POSITION_KEY, Position, Store, lost_head, new_changelog
from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.errors.commands import command_line
from tidegate.events.topics import CHANGELOG
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, RESULT_TIMEOUT, Broker, not_permitted
from tidegate.ops.doctor.finding import DENIED, Finding, Status
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.service.assembly import subjects
from tidegate.service.catalogue import COORDINATOR, inputs_of
from tidegate.service.settings import Settings
from tidegate.service.topics import describe_topics

_SETTING: Final = "offsets.retention.minutes"
_FOREVER: Final = 2**31 - 1
_MINUTE: Final = 60_000


def check_offsets(broker: Broker, service: str) -> Finding:
    """Whether the committed offsets of a service's group are still in its topics."""
    prefix = broker.topics.prefix
    topics = [found.name(prefix) for found in inputs_of(service)]
    parts = list(broker.spans(topics))
    committed = broker.groups.committed(f"{prefix}.{service}", parts)  # before the ends
    return compare_offsets(service, prefix, committed, broker.spans(topics))


def compare_offsets(
    service: str,
    prefix: str,
    committed: Mapping[Partition, int],
    available: Mapping[Partition, range],
) -> Finding:
    """Compare committed offsets with the available offsets. Pure."""
    if not committed:
        return Finding(Status.OK, "not started yet: it will read from the beginning")
    lost = {p: at for p, at in committed.items() if not _is_in(at, available.get(p))}
    if not lost:
        behind = sum(available[p].stop - at for p, at in committed.items())
        return Finding(Status.OK, f"in range, {behind} records behind")
    seen = (
        f"committed offset {at} of {p.topic}[{p.number}], {_range_of(available.get(p))}"
        for p, at in lost.items()
    )
    advice = " && ".join(
        _reset(service, p.topic.removeprefix(f"{prefix}."), p.number) for p in lost
    )
    return Finding(Status.FAIL, "; ".join(seen), f"events were lost; stop it, then run: {advice}")


def _is_in(at: int, available: range | None) -> bool:
    return available is not None and available.start <= at <= available.stop


def _range_of(available: range | None) -> str:
    if available is None:
        return "which no longer exists"
    return f"which holds {available.start} to {available.stop}"


def _reset(service: str, topic: str, number: int) -> str:
    return command_line(
        "replay group", service, topic=topic, partition=number, to_earliest=True, execute=True
    )


def check_retention(broker: Broker, executors: Sequence[str]) -> Finding:
    """Whether the offsets of these executors are retained for as long as their tasks.

    The coordinator needs no check: its changelog has positions, so it skips applied events.
    """
    prefix = broker.topics.prefix
    names = sorted({topic.name(prefix) for name in executors for topic in inputs_of(name)})
    kept: dict[str, int] = {}
    for name, found in describe_topics(broker.admin, names, REQUEST_TIMEOUT).items():
        if found.settings is not None:
            kept[name] = int(found.settings["retention.ms"])
    try:
        return compare_retention(_shortest(broker), kept)
    except KafkaException as error:
        if error.args[0].code() not in DENIED:
            raise
        seen = "unknown: this principal may not see the brokers' settings"
        return Finding(Status.SKIPPED, seen)


def compare_retention(minutes: int, topics: Mapping[str, int]) -> Finding:
    """Compare the retention of offsets with the retention of topics. Pure.

    Args:
        minutes: How long the brokers retain the offsets of a group without members.
        topics: `retention.ms` of each topic; negative: forever.
    """
    if not topics:
        return Finding(Status.SKIPPED, "unknown: this principal may not see the topic of tasks")
    needed = {name: _minutes(kept) for name, kept in topics.items()}
    longest = max(needed, key=lambda name: needed[name])
    if minutes >= needed[longest]:
        return Finding(Status.OK, f"the brokers keep committed offsets for {_days(minutes)}")
    seen = (
        f"offsets expire after {_days(minutes)}, but {longest} keeps tasks for"
        f" {_days(needed[longest])}: a worker stopped for longer would read all of them again."
        " Tasks that are done are recognised, but one that was dead-lettered or skipped may run"
    )
    return Finding(Status.WARN, seen, f"set {_SETTING}={needed[longest]} on the brokers")


def _shortest(broker: Broker) -> int:
    cluster = broker.admin.describe_cluster(request_timeout=REQUEST_TIMEOUT).result(RESULT_TIMEOUT)
    nodes = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in cluster.nodes]
    futures = broker.admin.describe_configs(nodes, request_timeout=REQUEST_TIMEOUT)
    return min(
        int(str(future.result(RESULT_TIMEOUT)[_SETTING].value)) for future in futures.values()
    )


def _minutes(milliseconds: int) -> int:
    return _FOREVER if milliseconds < 0 else min(_FOREVER, -(-milliseconds // _MINUTE))


def _days(minutes: int) -> str:
    return (
        "ever"
        if minutes == _FOREVER
        else f"{timedelta(minutes=minutes) / timedelta(days=1):g} days"
    )


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
            return Finding(Status.SKIPPED, f"topic {topic} does not exist")
        for part, span in spans.items():
            if lost := lost_head(part, span.start):
                raise StopService(lost)  # noqa: TRY301 - as if the changelog were read
        # This order avoids false alarms while the coordinator runs: it writes its changelog before
        # it commits, and its inputs grow meanwhile.
        parts = [Partition(name, part.number) for part in spans for name in inputs]
        starts = broker.groups.committed(f"{prefix}.{COORDINATOR}", parts)
        state = read_state(read_spans(broker.connection, spans))
        return state.compared(broker.metadata.watermarks(parts), starts, len(spans))
    except ConfigError as error:
        return not_permitted(error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in DENIED:
            return not_permitted(error)
        return Finding(Status.FAIL, str(error), new_changelog(topic))


@dataclass(frozen=True, slots=True)
class _State:
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
                return Finding(Status.FAIL, str(error), advice)
            except OffsetGapError as error:
                faults.append(str(error))
        if faults:
            more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
            advice = f"stop the coordinator, then run: {_again()}"
            return Finding(Status.FAIL, faults[0] + more, advice)
        return Finding(Status.OK, f"{len(self.tables)} tables can be restored")


def read_state(records: Iterable[Record]) -> _State:
    """Decode every row, as the coordinator would, and take the last position of each partition.

    Raises:
        FormatError, StopService: a record can't be read.
    """
    state, kinds, left = _State(), subjects(Settings()).kinds, iter(records)
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
