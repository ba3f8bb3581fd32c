"""Looks at groups, offsets and outcomes now and then, and keeps the gauges and counters current."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final, NamedTuple

from tidegate.errors import FormatError, TransientError
from tidegate.events import Outcome
from tidegate.events.topics import DEAD_LETTERS, OUTCOME_TOPIC, topic_of
from tidegate.monitoring import catalog
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.groups import Groups, lags_of
from tidegate.ops.monitor.pinned import PinnedFiles
from tidegate.ops.topics.creating import connect
from tidegate.ops.waiting import (
    HeldTable,
    KeptCleaning,
    StoredVacuum,
    gate_stores,
    held_and_kept,
    stored_vacuums,
)
from tidegate.registry import wire_for
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letter_limit import Fault
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.partition_reader import read_spans
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import CONSUMED_EVENTS
from tidegate.service.settings import Settings

log = logging.getLogger(__name__)
_MISSED_LOOKS: Final = 4
_BROKER_SECONDS: Final = 3.0
_MEMBER_RETRIES: Final = RetryPolicy(attempts=6, longest=2.0).quiet()
"""An outage is logged once, by the look that fails."""
_RETRIES: Final = RetryPolicy(attempts=3, longest=1.0).quiet()
"""Right after topics were created their leaders are not known yet."""


class _Waiting(NamedTuple):
    """What waits, of the tables of one pattern."""

    vacuums: int = 0
    locks: int = 0
    transactions: int = 0
    oldest: float | None = None
    overdue: int = 0

    kept: int = 0
    kept_bytes: int = 0
    held: int = 0

    def plus(self, found: StoredVacuum | HeldTable | KeptCleaning) -> _Waiting:
        match found:
            case HeldTable():
                return self._replace(held=self.held + 1)
            case KeptCleaning():
                kept, size = self.kept + found.directories, self.kept_bytes + found.bytes
                return self._replace(kept=kept, kept_bytes=size)
            case StoredVacuum():
                return self._plus_vacuum(found)

    def _plus_vacuum(self, vacuum: StoredVacuum) -> _Waiting:
        since = vacuum.since.timestamp()
        locks, transactions = vacuum.count_lacks()
        return self._replace(
            vacuums=self.vacuums + 1,
            locks=self.locks + locks,
            transactions=self.transactions + transactions,
            oldest=since if self.oldest is None else min(self.oldest, since),
            overdue=self.overdue + (vacuum.overdue_since is not None),
        )


_NONE: Final = _Waiting()
_ABOUT_WAITING: Final = (
    catalog.WAITING,
    catalog.OVERDUE,
    catalog.KEPT,
    catalog.KEPT_BYTES,
    catalog.HELD,
    catalog.OLDEST_WAITING,
    catalog.WAITING_HOLDS,
)


class MonitorHealth:
    """Ready while the last look was not long ago; live as long as the process answers."""

    def __init__(self, interval: float) -> None:
        """Take the seconds between two looks."""
        self._limit = _MISSED_LOOKS * interval
        self._looked: float | None = None

    def looked(self) -> None:
        """The whole deployment was seen."""
        self._looked = time.monotonic()

    def not_live(self) -> list[str]:
        """Nothing: a broker that is away is no reason to start again."""
        return []

    def not_ready(self) -> list[str]:
        """Why what is exported is out of date; empty if it is not."""
        if self._looked is None:
            return ["the deployment was not seen yet"]
        seconds = time.monotonic() - self._looked
        return [f"last seen {seconds:.0f} s ago"] if seconds > self._limit else []


class DeploymentMonitor:
    """Exports what the broker knows of a deployment. Nothing is written, no group is joined."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        """Take the deployment; nothing is sent yet.

        Raises:
            ConfigError: no broker is named, or a setting is invalid.
        """
        self._settings, self._metrics = settings, metrics
        self._config = settings.connection()
        self._prefix, self._wire = settings.topics.prefix, wire_for(settings.registry)
        self._metadata = KafkaMetadata(self._config, wait_seconds=_BROKER_SECONDS)
        self._pinned = PinnedFiles(settings.monitoring.tables)
        self._read: dict[Partition, int] = {}
        """Up to which offset outcomes and dead letters were counted."""

    def run(
        self,
        stop: threading.Event,
        interval: float,
        health: MonitorHealth,
        waiting_interval: float = 300,
    ) -> None:
        """Look every `interval` seconds until `stop` is set; an outage is logged once.

        What waits is read off the whole changelog of the gate, which costs more where much waits:
        every `waiting_interval` seconds.

        Raises:
            StopService: the broker refuses access.
            ConfigError: a topic does not exist.
        """
        away, waiting_due = False, 0.0
        while not stop.is_set():
            try:
                self.look()
                if time.monotonic() >= waiting_due:
                    self.look_at_waiting()
                    waiting_due = time.monotonic() + waiting_interval
            except TransientError as error:
                if not away:
                    log.warning("the deployment can't be seen: %s", error)
                away = True
            else:
                if away:
                    log.warning("the deployment is seen again")
                away = False
                health.looked()
            stop.wait(interval)

    def look(self) -> None:
        """Look once.

        Raises:
            TransientError: the broker did not answer; what is exported stays as it was.
        """
        ends = _RETRIES.call(self._ends)
        self._look_at_groups(ends)
        self._count_appended(ends)
        appended = _RETRIES.call(lambda: self._metadata.appended_ends(list(ends)))
        for part, end in ends.items():
            labels = part.topic, str(part.number)
            self._metrics.set(catalog.END, end, *labels)
            self._metrics.set(catalog.HIDDEN, max(0, appended[part] - end), *labels)
        self._metrics.set(catalog.LAST_LOOK, time.time())

    def look_at_waiting(self) -> None:
        """Count the vacuums that wait, and what they lack, by pattern of tables.

        Raises:
            TransientError: the broker did not answer; what is exported stays as it was.
        """
        found = dict.fromkeys(self._settings.monitoring.tables, _NONE)
        for store in gate_stores(self._settings):
            for what in chain(stored_vacuums(store), held_and_kept(store)):
                pattern = next((it for it in found if fnmatchcase(what.table, it)), None)
                if pattern is not None:
                    found[pattern] = found[pattern].plus(what)
        for each in _ABOUT_WAITING:
            self._metrics.forget(each)
        for pattern, waiting in found.items():
            self._metrics.set(catalog.WAITING, waiting.vacuums, pattern)
            self._metrics.set(catalog.OVERDUE, waiting.overdue, pattern)
            self._metrics.set(catalog.KEPT, waiting.kept, pattern)
            self._metrics.set(catalog.KEPT_BYTES, waiting.kept_bytes, pattern)
            self._metrics.set(catalog.HELD, waiting.held, pattern)
            self._metrics.set(catalog.WAITING_HOLDS, waiting.locks, pattern, "lock")
            self._metrics.set(catalog.WAITING_HOLDS, waiting.transactions, pattern, "transaction")
            if waiting.oldest is not None:
                self._metrics.set(catalog.OLDEST_WAITING, waiting.oldest, pattern)

    def _ends(self) -> dict[Partition, int]:
        read = {topic_of(kind) for kinds in CONSUMED_EVENTS.values() for kind in kinds}
        names = sorted(each.name(self._prefix) for each in {*read, OUTCOME_TOPIC, DEAD_LETTERS})
        parts = [
            Partition(name, number)
            for name in names
            for number in range(self._metadata.partitions(name))
        ]
        return self._metadata.ends(parts)

    def _look_at_groups(self, ends: Mapping[Partition, int]) -> None:
        # a new client: one that saw its broker die was seen to time out for a minute afterwards
        groups = Groups(connect(self._config), KafkaMetadata(self._config), _MEMBER_RETRIES)
        for service, kinds in CONSUMED_EVENTS.items():
            group = f"{self._prefix}.{service}"
            topics = {topic_of(kind).name(self._prefix) for kind in kinds}
            read = {part: end for part, end in ends.items() if part.topic in topics}
            self._metrics.set(catalog.MEMBERS, len(groups.members(group)), group)
            for part, lag in lags_of(self._metadata, group, read).items():
                labels = (group, part.topic, str(part.number))
                if lag.committed is not None:
                    self._metrics.set(catalog.CURRENT, lag.committed, *labels)
                self._metrics.set(catalog.LAG, lag.records, *labels)

    def _count_appended(self, ends: Mapping[Partition, int]) -> None:
        outcomes, letters = OUTCOME_TOPIC.name(self._prefix), DEAD_LETTERS.name(self._prefix)
        counted = {each: end for each, end in ends.items() if each.topic in {outcomes, letters}}
        if not self._read:  # counting begins with what comes after the start
            for fault in (*Fault, "unknown"):
                self._metrics.add(catalog.NEW_DEAD_LETTERS, 0, fault)
        spans = {each: range(self._read.get(each, end), end) for each, end in counted.items()}
        for record in read_spans(self._config, spans):
            if record.partition.topic == letters:
                fault, count = _fault_and_count(record)
                self._metrics.add(catalog.NEW_DEAD_LETTERS, count, fault)
            else:
                self._metrics.add(catalog.SEEN, 1, *self._kind_and_reason(record))
            self._read[record.partition] = record.offset + 1
        self._read |= counted
        self._pinned.export(self._metrics)

    def _kind_and_reason(self, record: Record) -> tuple[str, str]:
        try:
            event = self._wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            return "unreadable", ""
        if not isinstance(event, Outcome):
            return "unreadable", ""
        self._pinned.saw(event)
        return type(event).__name__, catalog.reason_of(event)


def _fault_and_count(record: Record) -> tuple[str, int]:
    try:
        return counted(record.headers)
    except FormatError:  # another tool's header name is not text
        return counted(())
