"""How far the clocks of those who write and of the broker are apart. Only people care."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tidegate.doctor.broker import SECONDS, Broker
from tidegate.doctor.finding import Finding, State
from tidegate.doctor.offsets import held
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka_records import as_record

_APART: Final = timedelta(seconds=5)
_CHECK: Final = "clock"


def clock_skew(broker: Broker) -> Finding:
    """Compare the newest outcome's own time with the time at which the broker appended it."""
    newest = max(_last(broker), key=lambda each: each.timestamp_ms, default=None)
    said = dict(newest.headers).get("ce_time") if newest else None
    if newest is None or said is None:
        return Finding(_CHECK, State.SKIPPED, "unknown: there is no outcome yet to tell it by")
    appended = datetime.fromtimestamp(newest.timestamp_ms / 1000, UTC)
    return apart(datetime.fromisoformat(said.decode()), appended)


def apart(said: datetime, appended: datetime) -> Finding:
    """Compare two times of one outcome. Pure."""
    between = (appended - said).total_seconds()
    seen = f"the newest outcome was appended {between:+.1f} s after its writer's clock"
    if abs(between) <= _APART.total_seconds():
        return Finding(_CHECK, State.OK, seen)
    advice = "set the clocks (NTP): nothing is decided by them, but people read these times"
    return Finding(_CHECK, State.WARN, seen, advice)


def _last(broker: Broker) -> Iterator[Record]:
    """The last record of each partition of the outcomes."""
    spans = held(broker.admin, [OUTCOME_TOPIC.name(broker.topics.prefix)])
    last = [TopicPartition(*each, span.stop - 1) for each, span in spans.items() if span]
    consumer = Consumer(
        {
            **broker.connection,
            "group.id": f"{broker.topics.prefix}.people",  # never joined: librdkafka wants a name
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.assign(last)
        waiting = len(last)
        deadline = time.monotonic() + SECONDS
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                waiting -= 1
                yield as_record(message)
    finally:
        consumer.close()
