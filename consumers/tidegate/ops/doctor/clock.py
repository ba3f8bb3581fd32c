"""How far the clocks of services and broker differ. No decision depends on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.ops.doctor.broker import REQUEST_TIMEOUT, Broker
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.ops.doctor.offsets import offset_ranges
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.records import as_record

_APART: Final = timedelta(seconds=5)
_CHECK: Final = "clock"


def check_clock(broker: Broker) -> Finding:
    """Compare the newest outcome's own time with the time at which the broker appended it."""
    newest = max(_last(broker), key=lambda record: record.timestamp_ms, default=None)
    written = dict(newest.headers).get("ce_time") if newest else None
    if newest is None or written is None:
        return Finding(_CHECK, Status.SKIPPED, "unknown: there is no outcome yet to compare")
    appended = datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC)
    return compare_clocks(datetime.fromisoformat(written.decode()), appended)


def compare_clocks(written: datetime, appended: datetime) -> Finding:
    """Compare two times of one outcome. Pure."""
    between = (appended - written).total_seconds()
    seen = f"the newest outcome was appended {between:+.1f} s after its writer's clock"
    if abs(between) <= _APART.total_seconds():
        return Finding(_CHECK, Status.OK, seen)
    advice = "synchronise the clocks (NTP): no decision depends on them, but people read the times"
    return Finding(_CHECK, Status.WARN, seen, advice)


def _last(broker: Broker) -> Iterator[Record]:
    """The last record of each partition of the outcomes."""
    outcomes = OUTCOME_TOPIC.name(broker.topics.prefix)
    spans = offset_ranges(broker.admin, [outcomes])
    last = [TopicPartition(*part, span.stop - 1) for part, span in spans.items() if span]
    consumer = Consumer(
        {
            **broker.connection,
            "group.id": outcomes,  # never joined, but required
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign(last)
        waiting = len(last)
        deadline = time.monotonic() + REQUEST_TIMEOUT
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                waiting -= 1
                yield as_record(message)
    finally:
        consumer.close()
