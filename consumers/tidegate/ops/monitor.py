"""Metrics of a complete deployment, polled from the broker, and notifications of its outcomes."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegate.bridges.position import READS, group_of
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.vacuums import waiting_vacuums
from tidegate.errors import FormatError, TransientError
from tidegate.events import (
    Event,
    Outcome,
    RestoreAwaitingApproval,
    RestoreCompleted,
    RestoreFailed,
    RestoreProgressed,
    RestoreRejected,
    RestoreStarted,
    SavepointRemoved,
    SavepointsChecked,
    TaskEnded,
)
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC
from tidegate.monitoring import catalog
from tidegate.monitoring.catalog import Metric
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import EventFilter, EventLog, LoggedEvent
from tidegate.ops.groups import Groups, lags_of, topics_of
from tidegate.ops.notifications import Notifications
from tidegate.ops.recent import Recent
from tidegate.ops.waiting import gate_stores, held_tables, quarantined
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letter_limit import Fault
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.records import APPENDED, read_spans
from tidegate.runtime.retry import ELECTION_RETRIES, RetryPolicy
from tidegate.service.catalogue import NAMES, inputs_of
from tidegate.service.settings import Settings
from tidegate.tables.settings import covers_name

log = logging.getLogger(__name__)
_MISSED_POLLS: Final = 4
_BROKER_SECONDS: Final = 3.0
_MEMBER_RETRIES: Final = RetryPolicy(attempts=6, longest=2.0).quiet()
"""Quiet, because `run` logs an outage once."""
_RETRIES: Final = ELECTION_RETRIES.quiet()
"""For new topics, whose leaders are not known yet."""
_FAULTS: Final = (*Fault, "unknown")
_HISTORY: Final = timedelta(days=30)
"""How far back restores and checks of savepoints are read at the start."""
_RESTORES: Final = (
    *(RestoreAwaitingApproval, RestoreStarted, RestoreProgressed),
    *(RestoreCompleted, RestoreFailed, RestoreRejected, TaskEnded),
)
_HISTORY_KINDS: Final = frozenset(
    kind.__name__ for kind in (*_RESTORES, SavepointsChecked, SavepointRemoved)
)
_COUNTS: Final[Sequence[tuple[Metric, tuple[str, ...]]]] = (
    *((catalog.WAITING, ()), (catalog.OVERDUE, ()), (catalog.HELD, ())),
    *((catalog.IN_QUARANTINE, ()), (catalog.IN_QUARANTINE_BYTES, ())),
    *((catalog.WAITING_HOLDS, ("lock",)), (catalog.WAITING_HOLDS, ("transaction",))),
)
"""Gauges of waiting vacuums, holds and quarantines by pattern, and their further labels."""


def pattern_of(table: str, patterns: Sequence[str]) -> str | None:
    """The first pattern that matches a table; None: the table does not count."""
    return next((pattern for pattern in patterns if covers_name(pattern, table)), None)


@dataclass(slots=True)
class _PinnedFiles:
    """The last measurement of each table that was seen."""

    patterns: Sequence[str]
    """From `[monitoring] tables`; a table counts for the first pattern that matches."""
    _tables: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take the next outcome."""
        if isinstance(event, SavepointsChecked) and event.pinned_bytes is not None:
            self._tables[event.table] = event.pinned_bytes, event.oldest_at
        elif isinstance(event, SavepointRemoved) and event.savepoints_left == 0:
            self._tables.pop(event.table, None)

    def export(self, metrics: Metrics) -> None:
        """Set the gauges; a pattern without a measured table has no value."""
        for gauge in (catalog.PINNED, catalog.PINNED_SINCE):
            metrics.forget(gauge)
        measured = defaultdict[str | None, list[tuple[int, datetime | None]]](list)
        for table, pinned in self._tables.items():
            measured[pattern_of(table, self.patterns)].append(pinned)
        for pattern, own in measured.items():
            if pattern is None:
                continue
            metrics.set(catalog.PINNED, sum(size for size, _ in own), pattern)
            if since := [oldest.timestamp() for _, oldest in own if oldest is not None]:
                metrics.set(catalog.PINNED_SINCE, min(since), pattern)


def _counts(store: Store) -> Iterator[tuple[str, Metric, float, tuple[str, ...]]]:
    """What counts in a partition: the table, the gauge, the amount, and further labels."""
    for vacuum in waiting_vacuums(store):
        locks, transactions = vacuum.outstanding(store)
        yield vacuum.table, catalog.WAITING, 1, ()
        yield vacuum.table, catalog.OVERDUE, vacuum.overdue_since is not None, ()
        yield vacuum.table, catalog.WAITING_HOLDS, len(locks), ("lock",)
        yield vacuum.table, catalog.WAITING_HOLDS, len(transactions), ("transaction",)
        yield vacuum.table, catalog.OLDEST_WAITING, vacuum.since / 1000, ()
    for hold in held_tables(store):
        yield hold["table"], catalog.HELD, 1, ()
    for row in quarantined(store):
        yield row["table"], catalog.IN_QUARANTINE, row["directories"], ()
        yield row["table"], catalog.IN_QUARANTINE_BYTES, row["bytes"], ()


class DeploymentMonitor:
    """Exports a deployment's metrics from the broker. It writes nothing and joins no group."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Take the deployment; nothing is sent yet.

        Raises:
            ConfigError: no broker is configured, or a setting is invalid.
            ModuleNotFoundError: notifications are configured and apprise is not installed.
        """
        self._settings, self._metrics = settings, metrics
        self._config = settings.connection()
        self._prefix, self._wire = settings.topics.prefix, wire_for(settings.registry)
        self._metadata = KafkaMetadata(self._config, wait_seconds=_BROKER_SECONDS)
        self._pinned = _PinnedFiles(settings.monitoring.tables)
        self._restores = Recent()
        self._notifications = Notifications(settings.monitoring.notify, self._prefix)
        self._last_poll: float | None = None
        self._read: dict[Partition, int] = {}
        """The next offset to count, of outcomes and dead letters."""

    def not_live(self) -> list[str]:
        """Always empty: a restart does not help when the broker is down."""
        return []

    def not_ready(self, interval: float) -> list[str]:
        """Why the exported metrics are outdated; empty if the last poll is recent."""
        if self._last_poll is None:
            return ["the deployment was not polled yet"]
        seconds = time.monotonic() - self._last_poll
        return [f"last polled {seconds:.0f} s ago"] if seconds > _MISSED_POLLS * interval else []

    def run(self, stop: threading.Event, interval: float, waiting_interval: float = 300) -> None:
        """Poll every `interval` seconds until `stop` is set; log an outage once.

        Waiting vacuums and open dead letters are counted every `waiting_interval` seconds only,
        because that reads the gate's complete changelog and all dead letters.

        Raises:
            StopService: the broker refuses access.
            ConfigError: a topic does not exist.
        """
        log.info(
            "watches the deployment %s.* every %g s; addresses that are notified: %d",
            *(self._prefix, interval, len(self._settings.monitoring.notify)),
        )
        away, waiting_due = False, 0.0
        while not stop.is_set():
            try:
                self.poll()
                if time.monotonic() >= waiting_due:
                    self.poll_waiting()
                    self.poll_dead_letters()
                    waiting_due = time.monotonic() + waiting_interval
            except TransientError as error:
                if not away:
                    log.warning("the deployment can't be polled: %s", error)
                away = True
            else:
                if away:
                    log.warning("the deployment is polled again")
                away = False
                self._last_poll = time.monotonic()
            stop.wait(interval)

    def poll(self) -> None:
        """Poll groups, offsets and outcomes once.

        Raises:
            TransientError: the broker did not answer; the exported values are unchanged.
        """
        ends = _RETRIES.call(self._ends)
        self._poll_groups(ends)
        self._count_appended(ends)
        appended = _RETRIES.call(lambda: self._metadata.ends(list(ends), APPENDED))
        for part, end in ends.items():
            labels = part.topic, str(part.number)
            self._metrics.set(catalog.END, end, *labels)
            self._metrics.set(catalog.HIDDEN, max(0, appended[part] - end), *labels)
        now = datetime.now(UTC)
        self._metrics.set(catalog.PENDING_APPROVALS, len(self._restores.awaiting_at(now)))
        unfinished, failed = self._restores.unfinished, len(self._restores.failed_half_way)
        self._metrics.set(catalog.UNFINISHED_RESTORES, failed, "failed")
        self._metrics.set(catalog.UNFINISHED_RESTORES, len(unfinished) - failed, "running")
        self._metrics.set(catalog.MONITOR_LAST_POLL, now.timestamp())
        self._notifications.send()

    def poll_dead_letters(self) -> None:
        """Count the open dead letters.

        Raises:
            TransientError: the broker did not answer; the exported values are unchanged.
        """
        found = _RETRIES.call(self._open_dead_letters)
        for fault in _FAULTS:
            self._metrics.set(catalog.OPEN_DEAD_LETTERS, found[fault], fault)

    def _open_dead_letters(self) -> Counter[str]:
        with DeadLetterBox(self._settings) as box:
            listed = box.list(DeadLetterFilter())
            return Counter(counted(found.record.headers)[0] for found in listed)

    def poll_waiting(self) -> None:
        """Count waiting vacuums and their outstanding holds, by pattern of tables.

        Raises:
            TransientError: the broker did not answer; the exported values are unchanged.
        """
        patterns = self._settings.monitoring.tables
        values: dict[tuple[Metric, tuple[str, ...]], float] = {
            (gauge, (pattern, *more)): 0 for pattern in patterns for gauge, more in _COUNTS
        }
        for store in gate_stores(self._settings):
            for table, gauge, amount, more in _counts(store):
                if (pattern := pattern_of(table, patterns)) is None:
                    continue
                key = gauge, (pattern, *more)
                if gauge is catalog.OLDEST_WAITING:
                    values[key] = min(amount, values.get(key, amount))
                else:
                    values[key] += amount
        for gauge in {catalog.OLDEST_WAITING, *(gauge for gauge, _ in _COUNTS)}:
            self._metrics.forget(gauge)
        for (gauge, labels), value in values.items():
            self._metrics.set(gauge, value, *labels)

    def _ends(self) -> dict[Partition, int]:
        read = {topic for service in NAMES for topic in inputs_of(service)}
        names = sorted(topic.name(self._prefix) for topic in {*read, OUTCOME_TOPIC, DEAD_LETTERS})
        parts = [
            Partition(name, number)
            for name in names
            for number in range(self._metadata.partitions(name))
        ]
        return self._metadata.ends(parts)

    def _poll_groups(self, ends: Mapping[Partition, int]) -> None:
        # a new client: after its broker's death an old one may time out for a minute
        groups = Groups(self._config, _MEMBER_RETRIES)
        for service in (*NAMES, *filter(self._settings.bridge.has, READS)):
            group, topics = group_of(self._prefix, service), topics_of(service, self._prefix)
            read = {part: end for part, end in ends.items() if part.topic in topics}
            self._metrics.set(catalog.MEMBERS, len(groups.members(group)), group)
            for part, lag in lags_of(self._metadata, group, read).items():
                labels = (group, part.topic, str(part.number))
                if lag.committed is not None:
                    self._metrics.set(catalog.CURRENT, lag.committed, *labels)
                self._metrics.set(catalog.LAG, lag.records, *labels)

    def _count_appended(self, ends: Mapping[Partition, int]) -> None:
        outcomes, dead_letters = OUTCOME_TOPIC.name(self._prefix), DEAD_LETTERS.name(self._prefix)
        ends = {part: end for part, end in ends.items() if part.topic in {outcomes, dead_letters}}
        if not self._read:  # only records after the start are counted
            for fault in _FAULTS:
                self._metrics.add(catalog.NEW_DEAD_LETTERS, 0, fault)
            self._read_history()
        spans = {part: range(self._read.get(part, end), end) for part, end in ends.items()}
        for record in read_spans(self._config, spans):
            if record.partition.topic == dead_letters:
                fault, count = counted(record.headers)
                self._metrics.add(catalog.NEW_DEAD_LETTERS, count, fault)
                self._notifications.take_dead_letters(fault, count)
            else:
                self._metrics.add(catalog.SEEN, 1, *self._kind_and_reason(record))
            self._read[record.partition] = record.offset + 1
        self._read |= ends
        self._pinned.export(self._metrics)

    def _kind_and_reason(self, record: Record) -> tuple[str, str]:
        try:
            event = self._wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            return "unreadable", ""
        if not isinstance(event, Outcome):
            return "unreadable", ""
        self._take(LoggedEvent(record, event), event)
        half_way = event.table in self._restores.failed_half_way
        self._notifications.take(event, half_way=half_way)
        return type(event).__name__, catalog.reason_of(event)

    def _read_history(self) -> None:
        """Take the outcomes from before the start that the gauges are about."""
        log, since = EventLog.of(self._settings), datetime.now(UTC) - _HISTORY
        for logged in log.read(wanted=EventFilter(kinds=_HISTORY_KINDS), since=since):
            if logged.event is not None:
                self._take(logged, logged.event)

    def _take(self, logged: LoggedEvent, event: Event) -> None:
        self._pinned.take(event)
        if isinstance(event, _RESTORES):
            self._restores.take(logged)
