"""How far the clocks of services and broker differ. No decision depends on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Finding, Status
from tidegate.runtime.kafka.partition_reader import read_spans

_APART: Final = timedelta(seconds=5)
_CHECK: Final = "clock"


def check_clock(broker: Broker) -> Finding:
    """Compare the newest outcome's own time with the time at which the broker appended it."""
    spans = broker.spans([OUTCOME_TOPIC.name(broker.topics.prefix)])
    last = {part: range(span.stop - 1, span.stop) for part, span in spans.items() if span}
    records = read_spans(broker.connection, last)
    newest = max(records, key=lambda record: record.timestamp_ms, default=None)
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
