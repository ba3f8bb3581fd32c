"""Whether events are on the partition of their table, and how far clocks differ."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.events import Event, SavepointsChecked, table_identity
from tidegate.events.topics import OUTCOME_TOPIC, TOPICS, Topic, partition_of
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.service.settings import Settings

_LAST: Final = 1000
"""Records that are checked at the end of each partition."""


def check_placement(broker: Broker, topic: Topic) -> Finding:
    """Whether the newest events of a topic are on their partitions."""
    name = topic.name(broker.topics.prefix)
    spans = {
        part: range(max(span.start, span.stop - _LAST), span.stop)
        for part, span in broker.spans([name]).items()
    }
    if not spans:
        return Finding(Status.SKIPPED, f"{name} does not exist")
    return compare_placement(read_spans(broker.connection, spans), len(spans))


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
        return Finding(Status.OK, f"the newest {seen} events are on their partitions")
    return Finding(
        Status.FAIL,
        f"{wrong} of the newest {seen} events are on another partition: {example}",
        "set partitioner=murmur2_random (librdkafka) or the default one (Java) for their writer;"
        " services dead-letter such events: redrive them",
    )


def _table(record: Record) -> str | None:
    """The table named by the key; None if it is not a table's name."""
    try:
        name = (record.key or b"").decode()
        return name if table_identity(name) == name else None
    except ValueError:
        return None


INPUT_TOPICS: Final = tuple(
    topic for topic in TOPICS if topic.events and topic.suffix != "outcomes"
)
"""Topics whose events services expect on the table's partition."""


_APART: Final = timedelta(seconds=5)


def check_clock(broker: Broker) -> Finding:
    """Compare the newest outcome's own time with the time at which the broker appended it."""
    spans = broker.spans([OUTCOME_TOPIC.name(broker.topics.prefix)])
    last = {part: range(span.stop - 1, span.stop) for part, span in spans.items() if span}
    records = read_spans(broker.connection, last)
    newest = max(records, key=lambda record: record.timestamp_ms, default=None)
    written = dict(newest.headers).get("ce_time") if newest else None
    if newest is None or written is None:
        return Finding(Status.SKIPPED, "unknown: there is no outcome yet to compare")
    appended = datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC)
    return compare_clocks(datetime.fromisoformat(written.decode()), appended)


def compare_clocks(written: datetime, appended: datetime) -> Finding:
    """Compare two times of one outcome. Pure."""
    between = (appended - written).total_seconds()
    seen = f"the newest outcome was appended {between:+.1f} s after its writer's clock"
    if abs(between) <= _APART.total_seconds():
        return Finding(Status.OK, seen)
    advice = "synchronise the clocks (NTP): no decision depends on them, but people read the times"
    return Finding(Status.WARN, seen, advice)


_CHECKS_SINCE: Final = timedelta(days=7)
_NAMED: Final = 10
"""How many tables a finding names."""


def check_owners(broker: Broker, settings: Settings) -> Finding:
    """Whether a rule owns every savepoint that a policy made, by the last checks."""
    if not broker.spans([OUTCOME_TOPIC.name(broker.topics.prefix)]):
        return Finding(Status.SKIPPED, "unknown: there is no topic of outcomes")
    wanted = EventFilter(kinds=frozenset({SavepointsChecked.__name__}))
    read = EventLog.of(settings).read(wanted=wanted, since=datetime.now(UTC) - _CHECKS_SINCE)
    return compare_owners(logged.event for logged in read if logged is not None)


def compare_owners(checks: Iterable[Event | None]) -> Finding:
    """Find the tables whose last check found savepoints without an owner. Pure."""
    last = {event.table: event for event in checks if isinstance(event, SavepointsChecked)}
    unowned = [f"{len(last[it].unowned)} of {it}" for it in sorted(last) if last[it].unowned]
    if not unowned:
        return Finding(Status.OK, f"{len(last)} tables were checked; a rule owns every savepoint")
    named = ", ".join(unowned[:_NAMED]) + (", ..." if len(unowned) > _NAMED else "")
    return Finding(
        Status.WARN,
        f"no rule owns savepoints, so they stay: {named}",
        "name their policy in `adopts` of the table's rule, or `tidegate savepoints remove`",
    )
