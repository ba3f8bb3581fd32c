"""Check the broker, its topics, rights and clock, and what is committed and stored there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.bridges.position import READS, STALE, group_of, last_poll
from tidegate.coordinator.rows.position import POSITION_KEY, Position, lost_head, new_changelog
from tidegate.coordinator.rows.store import Store
from tidegate.errors import ConfigError, FormatError, OffsetGapError, StopService
from tidegate.errors.commands import command_line
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven, table_identity
from tidegate.events.topics import CHANGELOG, Topic, partition_of
from tidegate.ops.acls import Acl, acls
from tidegate.ops.doctor.finding import Finding
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.groups import Groups
from tidegate.ops.summary import counted
from tidegate.ops.topics import connect
from tidegate.runtime.bus import Partition, Record, Watermarks
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import read_spans
from tidegate.service.assembly import subjects
from tidegate.service.catalogue import COORDINATOR, inputs_of
from tidegate.service.settings import Settings
from tidegate.service.topics import TopicDifference, deployment, describe_topics, differences

_REQUEST_TIMEOUT: Final = 5.0
"""Seconds for a request."""
_RESULT_TIMEOUT: Final = _REQUEST_TIMEOUT + 1
"""Longer than the request's, because the client's own error is more specific than our time-out."""
_DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
"""The broker's errors for a principal without the right."""
_ADVICE: Final = (
    "start it, or correct the settings: KAFKA_BOOTSTRAP_SERVERS, or in [kafka]"
    " bootstrap.servers, security.protocol, sasl.*, ssl.*"
)


class Broker:
    """The cluster of the settings, read-only."""

    def __init__(self, settings: Settings) -> None:
        """Create the clients; nothing is sent yet.

        Raises:
            ConfigError: no broker is configured, or librdkafka refuses a setting.
        """
        self.settings, self.connection = settings, settings.connection()
        self.topics = settings.topics
        self._faults: list[KafkaError] = []
        self.admin = connect({**self.connection, "error_cb": self._faults.append})
        self.metadata = KafkaMetadata(self.connection, wait_seconds=_REQUEST_TIMEOUT)
        self.groups = Groups(self.connection)

    def spans(self, topics: Sequence[str]) -> dict[Partition, range]:
        """The available offsets of every partition; topics that do not exist are left out."""
        parts = [
            Partition(name, number)
            for name, found in describe_topics(self.admin, topics, _REQUEST_TIMEOUT).items()
            for number in range(found.partitions)
        ]
        marks = self.metadata.watermarks(parts) if parts else {}
        return {part: range(mark.first, mark.end) for part, mark in marks.items()}

    def reached(self) -> Finding:
        """Whether a broker responds, and the number of brokers."""
        try:
            future = self.admin.describe_cluster(request_timeout=_REQUEST_TIMEOUT)
            cluster = future.result(_RESULT_TIMEOUT)
        except KafkaException as error:
            return Finding("fail", self._why(error.args[0]), _ADVICE)
        nodes = ", ".join(f"{node.host}:{node.port}" for node in cluster.nodes)
        controller = cluster.controller.id if cluster.controller else "unknown"
        seen = f"{len(cluster.nodes)} reached as {nodes}, controller {controller}"
        return Finding("ok", seen)

    def _why(self, error: KafkaError) -> str:
        """The underlying cause: a time-out does not mention a refused login or connection."""
        self.admin.poll(0)
        down = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - librdkafka's own code
        causes = [fault for fault in self._faults if fault.code() != down]
        return (causes or [error])[-1].str()


def check_topics(broker: Broker) -> Finding:
    """Whether every topic exists as declared."""
    declared = deployment(broker.topics)
    try:
        found = describe_topics(broker.admin, [topic.name for topic in declared], _REQUEST_TIMEOUT)
    except ConfigError as error:
        return _not_permitted(error)
    if wrong := differences(declared, found):
        hidden = all(difference.what == "settings" for difference in wrong)
        seen = "; ".join(TopicDifference.lines(wrong))
        return Finding("warn" if hidden else "fail", seen, f"see: {command_line('topics check')}")
    return Finding("ok", f"all {len(declared)} are as declared")


def _not_permitted(error: Exception) -> Finding:
    """A warning: a service's own principal need not see the topics of others."""
    advice = "run the doctor as a principal that may describe all topics and their settings"
    return Finding("warn", f"unknown: {error}", advice)


Allowed = Mapping[tuple[str, str], frozenset[str]]
"""The allowed operations by resource and name; unreported resources are left out."""


def check_access(broker: Broker, service: str) -> Finding:
    """Whether the principal of the settings has every right that a service needs."""
    needed = [right for right in acls(broker.topics.prefix) if right.role == service]
    return compare_rights(needed, _allowed(broker, needed))


def compare_rights(needed: Sequence[Acl], allowed: Allowed) -> Finding:
    """Compare the needed rights with the rights that the broker reports. Pure."""
    missing = [
        f"{right.operation} {right.resource} {right.name}"
        for right in needed
        if right.operation not in allowed.get((right.resource, right.name), {right.operation})
    ]
    if missing:
        advice = (
            "run the doctor as the service's principal, or grant them:"
            f" {command_line('topics acls')}"
        )
        return Finding("fail", f"this principal may not {', '.join(missing)}", advice)
    unreported = [right for right in needed if (right.resource, right.name) not in allowed]
    seen = "this principal has all rights that the broker reports"
    if unreported:
        seen += f"; unknown: {', '.join(sorted({right.resource for right in unreported}))}"
    return Finding("ok" if len(unreported) < len(needed) else "skipped", seen)


def _allowed(broker: Broker, needed: Sequence[Acl]) -> Allowed:
    topics, groups = (
        sorted({right.name for right in needed if right.resource == kind})
        for kind in ("topic", "group")
    )
    options: dict[str, Any] = {
        "include_authorized_operations": True,
        "request_timeout": _REQUEST_TIMEOUT,
    }
    described: dict[str, Mapping[str, Any]] = {
        "topic": broker.admin.describe_topics(TopicCollection(topics), **options),
        "group": broker.admin.describe_consumer_groups(groups, **options),
    }
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    for kind, futures in described.items():
        for name, future in futures.items():
            try:
                found = future.result(_RESULT_TIMEOUT).authorized_operations
            except KafkaException as error:
                found = () if error.args[0].code() in _DENIED else None
            if found is not None:
                allowed[kind, name] = frozenset(operation.name.lower() for operation in found)
    return allowed


_LAST: Final = 1000
"""Records that are checked at the end of each partition."""
_RESOLUTIONS: Final = (DeadLetterDiscarded, DeadLetterRedriven)


def check_placement(broker: Broker, topic: Topic) -> Finding:
    """Whether the newest events of a topic are on their partitions, but for resolved ones."""
    name = topic.name(broker.topics.prefix)
    spans = {part: span[-_LAST:] for part, span in broker.spans([name]).items()}
    if not spans:
        return Finding("skipped", f"{name} does not exist")
    read = read_spans(broker.connection, spans)
    records = [record._replace(value=None, headers=()) for record in read]
    found = compare_placement(records, len(spans))
    if found.state == "ok":
        return found
    since = datetime.fromtimestamp(min(record.timestamp_ms for record in records) / 1000, UTC)
    wanted = EventFilter(kinds=frozenset(kind.__name__ for kind in _RESOLUTIONS))
    resolved = {
        (Partition(event.origin_topic, event.origin_partition), event.origin_offset)
        for logged in EventLog.of(broker.settings).read(wanted=wanted, since=since)
        if isinstance(event := logged.event, _RESOLUTIONS)
    }
    left = (record for record in records if (record.partition, record.offset) not in resolved)
    return compare_placement(left, len(spans))


def compare_placement(records: Iterable[Record], partitions: int) -> Finding:
    """Compare the partition of each record of a topic with that of its key. Pure."""
    seen, wrong, example = 0, 0, ""
    for record in records:
        if (table := _table(record)) is None:
            continue
        seen += 1
        home = partition_of(table, partitions)
        if home != record.partition.number:
            wrong += 1
            at = f"{record.partition.number}/{record.offset}"
            example = example or f"{table} belongs on partition {home}, but is at {at}"
    if not wrong:
        return Finding("ok", f"the newest {seen} events are on their partitions")
    return Finding(
        "fail",
        f"{wrong} of the newest {seen} events are on another partition: {example}",
        "set partitioner=murmur2_random (librdkafka) or the default one (Java) for their writer;"
        " services dead-letter such events: redrive or discard them",
    )


def _table(record: Record) -> str | None:
    """The table named by the key; None if it is not a table's name."""
    try:
        name = (record.key or b"").decode()
        return name if table_identity(name) == name else None
    except ValueError:
        return None


def check_running(broker: Broker, service: str) -> Finding:
    """Whether a service runs: its group has members."""
    if broker.groups.members(f"{broker.topics.prefix}.{service}"):
        return Finding("ok", "it is running")
    return Finding("warn", "it is not running", f"start it: {command_line('run', service)}")


def check_bridge(broker: Broker, bridge: str) -> Finding:
    """Whether a bridge runs, and polls what it watches."""
    prefix = broker.topics.prefix
    group, reads = group_of(prefix, bridge), broker.spans([READS[bridge].name(prefix)])
    if not (members := broker.groups.members(group)):
        seen = "it is not running: nothing is published of what it watches"
        return Finding("warn", seen, f"start it: {command_line('run', bridge)}")
    polled = last_poll(bridge, prefix, broker.groups.positions(group, list(reads)))
    seen = f"{len(members)} running; "
    seen += f"last polled {polled:%Y-%m-%dT%H:%M:%SZ}" if polled else "it has not polled yet"
    if polled is None or datetime.now(UTC) - polled > STALE:
        return Finding("warn", seen, "if that lasts, see its log")
    return Finding("ok", seen)


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
        return Finding("ok", "not started yet: it will read from the beginning")
    seen, resets, behind = list[str](), list[str](), 0
    for part, at in committed.items():
        span = available.get(part)
        if span is not None and span.start <= at <= span.stop:
            behind += span.stop - at
            continue
        holds = f"holds {span.start} to {span.stop}" if span is not None else "no longer exists"
        seen.append(f"committed offset {at} of {part.topic}[{part.number}], which {holds}")
        topic = part.topic.removeprefix(f"{prefix}.")
        resets.append(_reset(service, topic, part.number))
    if not seen:
        return Finding("ok", f"in range, {counted(behind, 'record')} behind")
    advice = f"events were lost; stop it, then run: {' && '.join(resets)}"
    return Finding("fail", "; ".join(seen), advice)


def _reset(service: str, topic: str | None = None, partition: int | None = None) -> str:
    return command_line(
        "replay group", service, topic=topic, partition=partition, to_earliest=True, execute=True
    )


_RETENTION: Final = "offsets.retention.minutes"
_FOREVER: Final = 2**31 - 1
_MINUTE: Final = 60_000


def check_retention(broker: Broker, executors: Sequence[str]) -> Finding:
    """Whether the offsets of these executors are retained for as long as their tasks.

    The coordinator needs no check: its changelog has positions, so it skips applied events.
    """
    prefix = broker.topics.prefix
    names = sorted({topic.name(prefix) for name in executors for topic in inputs_of(name)})
    described = describe_topics(broker.admin, names, _REQUEST_TIMEOUT)
    retained = {
        name: int(found.settings["retention.ms"])
        for name, found in described.items()
        if found.settings is not None
    }
    try:
        return compare_retention(_shortest(broker), retained)
    except KafkaException as error:
        if error.args[0].code() not in _DENIED:
            raise
        return Finding("skipped", "unknown: this principal may not see the brokers' settings")


def compare_retention(minutes: int, topics: Mapping[str, int]) -> Finding:
    """Compare the retention of offsets with the retention of topics. Pure.

    Args:
        minutes: How long the brokers retain the offsets of a group without members.
        topics: `retention.ms` of each topic; negative: forever.
    """
    if not topics:
        return Finding("skipped", "unknown: there is no topic of tasks, or it may not be seen")
    needed = {
        name: _FOREVER if kept < 0 else min(_FOREVER, -(-kept // _MINUTE))
        for name, kept in topics.items()
    }
    longest = max(needed, key=lambda name: needed[name])
    if minutes >= needed[longest]:
        return Finding("ok", f"the brokers keep committed offsets for {_days(minutes)}")
    seen = (
        f"offsets expire after {_days(minutes)}, but {longest} keeps tasks for"
        f" {_days(needed[longest])}: a worker stopped for longer would read all of them again."
        " Tasks that are done are recognised, but one that was dead-lettered or skipped may run"
    )
    return Finding("warn", seen, f"set {_RETENTION}={needed[longest]} on the brokers")


def _shortest(broker: Broker) -> int:
    future = broker.admin.describe_cluster(request_timeout=_REQUEST_TIMEOUT)
    nodes = future.result(_RESULT_TIMEOUT).nodes
    resources = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in nodes]
    described = broker.admin.describe_configs(resources, request_timeout=_REQUEST_TIMEOUT).values()
    return min(int(str(future.result(_RESULT_TIMEOUT)[_RETENTION].value)) for future in described)


def _days(minutes: int) -> str:
    return "ever" if minutes == _FOREVER else f"{minutes / (24 * 60):g} days"


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
            return Finding("skipped", f"topic {topic} does not exist")
        for part, span in spans.items():
            if lost := lost_head(part, span.start):
                raise StopService(lost)  # noqa: TRY301 - as if the changelog were read
        # This order avoids false alarms while the coordinator runs: it writes its changelog before
        # it commits, and its inputs grow meanwhile.
        parts = [Partition(name, part.number) for part in spans for name in inputs]
        starts = broker.groups.committed(f"{prefix}.{COORDINATOR}", parts)
        tables, positions = read_state(read_spans(broker.connection, spans))
        marks = broker.metadata.watermarks(parts)
        return compare_state(tables, positions, marks, starts, len(spans))
    except ConfigError as error:
        return _not_permitted(error)
    except (FormatError, StopService) as error:
        cause = error.__cause__
        if isinstance(cause, KafkaException) and cause.args[0].code() in _DENIED:
            return _not_permitted(error)
        return Finding("fail", str(error), new_changelog(topic))


def read_state(records: Iterable[Record]) -> tuple[int, dict[int, Position]]:
    """Decode every row, as the coordinator would.

    Returns:
        The number of tables, and the last position of each partition, by its number.

    Raises:
        FormatError, StopService: a record can't be read.
    """
    tables, positions = set[str](), dict[int, Position]()
    row_types, left = subjects(Settings()).row_types, iter(records)
    while batch := list(islice(left, _TOGETHER)):
        rows: list[tuple[bytes, bytes | None]] = []
        for record in batch:
            where = record.partition
            if record.unreadable:
                at = f"{where.topic}[{where.number}]@{record.offset}"
                raise StopService(f"{at}: {record.unreadable}")
            if record.key == POSITION_KEY:
                positions[where.number] = Position.of(record.value or b"{}")
            else:
                rows.append((record.key or b"", record.value))
        with closing(Store(row_types)) as store:
            store.restore([*rows, Position().record()])
            tables.update(store.tables())
    return len(tables), positions


def compare_state(
    tables: int,
    positions: Mapping[int, Position],
    inputs: Mapping[Partition, Watermarks],
    starts: Mapping[Partition, int],
    count: int,
) -> Finding:
    """Compare the positions in the changelog with the topics. Pure.

    Args:
        tables: The number of tables in the changelog.
        positions: By partition number; a missing one is that of a new partition.
        inputs: The watermarks of every input partition.
        starts: The group's committed offsets.
        count: How many partitions the topics have.
    """
    faults: list[str] = []
    for part, watermarks in inputs.items():
        position = positions.get(part.number, Position())
        try:
            position.check_partitions(count)
            position.check(part.topic, watermarks, starts.get(part))
        except ConfigError as error:
            advice = "move to new topics: see More partitions in docs/topics.md"
            return Finding("fail", str(error), advice)
        except OffsetGapError as error:
            faults.append(str(error))
    if faults:
        more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
        again = _reset(COORDINATOR)
        return Finding("fail", faults[0] + more, f"stop the coordinator, then run: {again}")
    return Finding("ok", f"{counted(tables, 'table')} can be restored")
