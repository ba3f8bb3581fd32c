"""Read a deployment's status from groups, offsets, outcomes, dead letters and the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import EventLog
from tidegate.ops.groups import Groups, Lag, lags_of
from tidegate.ops.status.recent import Recent
from tidegate.ops.status.snapshot import ServiceStatus, Snapshot
from tidegate.ops.waiting import (
    HeldTable,
    OldestVacuums,
    PendingVacuum,
    QuarantinedDirectories,
    gate_stores,
    holds_and_quarantines,
)
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.catalogue import CONSUMED_EVENTS, inputs_of
from tidegate.service.settings import Settings

_RETRIES: Final = RetryPolicy(attempts=5, first=0.1, longest=1.0)


def read_snapshot(settings: Settings, since: datetime, now: datetime) -> Snapshot:
    """Read a deployment's status from Kafka; no service is contacted.

    Args:
        settings: The deployment.
        since: Outcomes count from this time on.
        now: The time of the snapshot.

    Raises:
        ConfigError: the topics do not exist.
        TransientError: no broker answers.
    """
    metadata = KafkaMetadata.for_people(settings.connection())
    metadata.require_connection()
    recent = Recent(day_ago=now - timedelta(days=1))
    for logged in EventLog.of(settings).read(since=since):
        if logged is not None:
            recent.take(logged)
    dead_letters = _dead_letters(settings)
    waiting, oldest, held, quarantined = _waiting(settings)
    services = [
        _service(settings, metadata, name, recent, dead_letters.pop(name, 0))
        for name in CONSUMED_EVENTS
    ]
    return Snapshot(
        at=now,
        since=since,
        services=services,
        waiting=waiting,
        oldest_waiting=oldest,
        running=sorted(recent.running.values(), key=lambda logged: logged.at),
        savepoints_made=recent.savepoints_made,
        savepoints_removed=recent.savepoints_removed,
        awaiting=recent.awaiting_at(now),
        alarms=sorted(recent.alarms.values(), key=lambda alarm: alarm.at),
        refused=recent.refused,
        failed=recent.failed,
        of_today=recent.of_today,
        unknown_dead_letters=sum(dead_letters.values()),
        held=sorted(held, key=lambda hold: hold.since),
        quarantined=sorted(quarantined, key=lambda cleaning: cleaning.until),
    )


def _service(
    settings: Settings, metadata: KafkaMetadata, name: str, recent: Recent, dead_letters: int
) -> ServiceStatus:
    prefix = settings.topics.prefix
    group = f"{prefix}.{name}"
    connection = settings.connection()
    members = Groups.of(connection).members(group)
    topics = [found.name(prefix) for found in inputs_of(name)]
    lags = _RETRIES.call(lambda: _lags(metadata, group, topics))
    return ServiceStatus(
        name,
        tuple(members),
        sum(lag.records for lag in lags.values()),
        recent.last_by_service.get(name),
        dead_letters,
    )


def _lags(metadata: KafkaMetadata, group: str, topics: list[str]) -> Mapping[Partition, Lag]:
    parts = [Partition(t, number) for t in topics for number in range(metadata.partitions(t))]
    return lags_of(metadata, group, metadata.ends(parts))


def _dead_letters(settings: Settings) -> Counter[str]:
    """Open dead letters by service."""
    with DeadLetterBox(settings) as box:
        return Counter(listed.dead_letter.service for listed in box.list(DeadLetterFilter()))


def _waiting(
    settings: Settings,
) -> tuple[int, PendingVacuum | None, list[HeldTable], list[QuarantinedDirectories]]:
    oldest = OldestVacuums(1)
    held: list[HeldTable] = []
    quarantined: list[QuarantinedDirectories] = []
    for store in gate_stores(settings):
        oldest.take(store)
        for it in holds_and_quarantines(store):
            held.append(it) if isinstance(it, HeldTable) else quarantined.append(it)
    return oldest.count, next(iter(oldest.vacuums), None), held, quarantined
