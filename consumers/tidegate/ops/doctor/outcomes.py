"""Check the clocks, and the owners of savepoints, by the newest outcomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.events import Event, SavepointsChecked
from tidegate.events.topics import OUTCOME_TOPIC
from tidegate.ops.doctor.broker import Broker
from tidegate.ops.doctor.finding import Finding
from tidegate.ops.event_log import EventFilter, EventLog
from tidegate.ops.summary import counted
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.records import read_spans
from tidegate.service.catalogue import NAMES

_APART: Final = 5.0
"""Seconds."""
_NEWEST: Final = 100
"""Outcomes that are compared at the end of each partition."""
_ENOUGH: Final = 3
"""So many outcomes are not all late because the broker was away, or published again."""


def check_clock(broker: Broker) -> Finding:
    """Compare the newest outcomes' own times with the times at which the broker appended them."""
    spans = broker.spans([OUTCOME_TOPIC.name(broker.topics.prefix)])
    newest = {part: span[-_NEWEST:] for part, span in spans.items()}
    return compare_clocks(read_spans(broker.connection, newest))


def compare_clocks(outcomes: Iterable[Record]) -> Finding:
    """Compare the two times of outcomes; any of them may have waited before it was appended. Pure.

    So the two that are closest count for each service.
    """
    found = defaultdict[str, list[float]](list)
    for record in outcomes:
        headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
        with suppress(ValueError, OverflowError):
            written = datetime.fromisoformat(headers.get("ce_time", "")).timestamp()
            if (service := headers.get("ce_source", "")) in NAMES:
                found[service].append(record.timestamp_ms / 1000 - written)
    closest = {service: min(apart, key=abs) for service, apart in found.items()}
    wrong = [
        f"{seconds:+.1f} s after the clock of the {service}"
        for service, seconds in sorted(closest.items())
        if seconds < -_APART or (seconds > _APART and len(found[service]) >= _ENOUGH)
    ]
    if wrong:
        advice = "synchronise the clocks (NTP): no decision depends on them, but people read them"
        return Finding("warn", f"the newest outcomes were appended {', '.join(wrong)}", advice)
    if not any(abs(seconds) <= _APART for seconds in closest.values()):
        return Finding("skipped", "unknown: there are too few outcomes yet to compare")
    return Finding("ok", "the broker's clock and those of the newest outcomes agree")


_CHECKS_SINCE: Final = timedelta(days=7)
_NAMED: Final = 10
"""How many tables a finding names."""


def check_owners(broker: Broker) -> Finding:
    """Whether a rule owns every savepoint that a policy made, by the last checks."""
    if not broker.spans([OUTCOME_TOPIC.name(broker.topics.prefix)]):
        return Finding("skipped", "unknown: there is no topic of outcomes")
    wanted = EventFilter(kinds=frozenset({SavepointsChecked.__name__}))
    read = EventLog.of(broker.settings).read(wanted=wanted, since=datetime.now(UTC) - _CHECKS_SINCE)
    return compare_owners(logged.event for logged in read)


def compare_owners(checks: Iterable[Event | None]) -> Finding:
    """Find the tables whose last check found savepoints without an owner. Pure."""
    last = {event.table: event for event in checks if isinstance(event, SavepointsChecked)}
    unowned = [f"{len(last[it].unowned)} of {it}" for it in sorted(last) if last[it].unowned]
    if not unowned:
        return Finding("ok", f"{counted(len(last), 'table')} checked; a rule owns every savepoint")
    named = ", ".join(unowned[:_NAMED]) + (", ..." if len(unowned) > _NAMED else "")
    advice = "name their policy in `adopts` of the table's rule, or `tidegate savepoints remove`"
    return Finding("warn", f"no rule owns savepoints, so they stay: {named}", advice)
