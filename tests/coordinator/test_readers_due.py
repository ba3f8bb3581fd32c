"""Work that is due without an event: decided at the broker's time, once, and never too early."""

from __future__ import annotations

from collections.abc import Collection
from unittest.mock import patch

import pytest

from support.markers import marker_behind
from support.memory_bus import MemoryBus, MemoryChangelog
from support.samples import events_on, memory_bus, message, release
from tidegate.coordinator.alarms import AlarmSettings
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.partitions import BrokerTime
from tidegate.coordinator.readers import ReaderGate
from tidegate.errors import TransientError
from tidegate.events import Event, LockHold, VacuumFinished, VacuumKind, VacuumOverdue
from tidegate.monitoring.observed import ProcessMonitoring
from tidegate.runtime.bus import ChangelogRecord, Partition, Watermarks

TABLE = "lake.sales.orders"
LIMIT_MS = 60_000
GATE = ReaderGate(alarms=(AlarmSettings(overdue_after=LIMIT_MS // 1000),))


class Broker:
    """A bus in memory whose clock is set by the test."""

    def __init__(self, bus: MemoryBus | None = None) -> None:
        self.bus = bus or memory_bus(partitions=1)
        self.at = 1_800_000_000_000
        self.bus.now_ms = lambda: self.at
        self.clock = BrokerTime(lambda: self.at / 1000, lambda: self.at / 1000)

    def send(self, *events: Event) -> None:
        self.bus.send([message(event) for event in events])

    def gate(self) -> CoordinatorLoop:
        return CoordinatorLoop(GATE, self.bus, clock=self.clock, tick_seconds=0)

    def said(self) -> list[Event]:
        return events_on(self.bus, "tidegate.outcomes")


def vacuum(*locks: int) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "table": TABLE,
            "location": "/lake/orders",
            "occurred_at": "2026-11-21T00:00:00Z",
            "source": "compactor",
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": "sales.orders:3:9223372036854775807::",
            "own_lock_id": locks[0],
            "locks": [LockHold(lock_id=lock) for lock in locks],
        }
    )


def test_it_is_said_at_the_brokers_time_without_any_event() -> None:
    broker = Broker()
    broker.send(vacuum(7))
    gate = broker.gate()
    gate.step(0)
    broker.at += LIMIT_MS - 1
    gate.step(0)
    assert broker.said() == []

    broker.at += 1
    gate.step(0)
    [said] = broker.said()
    assert isinstance(said, VacuumOverdue)
    assert said.occurred_at.timestamp() * 1000 == broker.at


def test_a_rebalance_and_a_restart_do_not_say_it_again() -> None:
    broker = Broker()
    broker.send(vacuum(7))
    first = broker.gate()
    first.step(0)
    broker.at += LIMIT_MS
    first.step(0)
    second = broker.gate()
    for _ in range(3):
        first.step(0)
        second.step(0)
    first.close()
    second.close()
    broker.at += LIMIT_MS
    third = broker.gate()
    third.step(0)

    assert len(broker.said()) == 1


def test_while_a_backlog_is_unread_nothing_is_overdue() -> None:
    broker = Broker()
    broker.send(vacuum(7))
    broker.send(*(release(n, TABLE) for n in range(1_000, 3_500)), release(7, TABLE))
    broker.at += 10 * LIMIT_MS
    gate = broker.gate()
    with patch("tidegate.coordinator.loop.BATCH_SECONDS", 0.0):  # one chunk a step
        while gate.step(0):
            pass
    for _ in range(3):
        gate.step(0)

    assert len(events_on(broker.bus, "tidegate.tasks")) == 1
    assert broker.said() == []


class Unwritable(MemoryChangelog):
    """It dies when the alarm is to be written."""

    def write(self, entries: object) -> None:
        if any(b"\x00overdue\x00" in key for key, _ in _records(entries)):
            raise SystemExit
        super().write(entries)  # type: ignore[arg-type]


def _records(entries: object) -> list[ChangelogRecord]:
    assert isinstance(entries, dict)
    return [record for records in entries.values() for record in records]


class DyingBus(MemoryBus):
    def changelog(self, topic: str) -> MemoryChangelog:
        return Unwritable(self, topic)


def test_a_crash_before_it_is_remembered_publishes_it_once() -> None:
    topics = {log.topic for log in memory_bus()._logs}
    bus = DyingBus(topics, partitions=1)
    broker = Broker(bus)
    broker.send(vacuum(7))
    gate = broker.gate()
    gate.step(0)
    broker.at += LIMIT_MS
    with pytest.raises(SystemExit):
        gate.step(0)
    gate.close()
    with patch.object(DyingBus, "changelog", MemoryBus.changelog):
        again = broker.gate()
        again.step(0)
        again.step(0)

    assert len(broker.said()) == 1, "what was not remembered was not published"


def test_an_end_that_holds_no_record_does_not_delay_it() -> None:
    broker = Broker()
    broker.send(vacuum(7))
    with marker_behind("tidegate.locks"):
        gate = broker.gate()
        gate.step(0)
        broker.at += LIMIT_MS
        gate.step(0)
    assert len(broker.said()) == 1


class AwayBus(MemoryBus):
    away = False

    def watermarks(self, partitions: Collection[Partition]) -> dict[Partition, Watermarks]:
        if self.away:
            raise TransientError("no broker answers")
        return super().watermarks(partitions)


def test_a_broker_that_does_not_answer_is_asked_again_later() -> None:
    bus = AwayBus({log.topic for log in memory_bus()._logs}, partitions=1)
    broker = Broker(bus)
    broker.send(vacuum(7))
    gate = broker.gate()
    gate.step(0)
    broker.at += LIMIT_MS
    bus.away = True
    gate.step(0)
    bus.away = False
    gate.step(0)

    assert len(broker.said()) == 1


def test_more_than_are_decided_at_once_are_decided_at_the_next_steps() -> None:
    broker = Broker()
    broker.send(*(vacuum(n) for n in range(1, 50)))
    gate = broker.gate()
    gate.step(0)
    broker.at += LIMIT_MS
    with patch("tidegate.coordinator.readers._AT_ONCE", 20):
        gate.step(0)
        assert len(broker.said()) == 20
        gate.step(0)
        gate.step(0)

    assert len({event.event_id for event in broker.said()}) == len(broker.said()) == 49


def test_a_measured_subject_is_a_timed_one_too() -> None:
    broker = Broker()
    service = ProcessMonitoring().service("coordinator")
    gate = CoordinatorLoop(
        service.subject(GATE), service.bus(broker.bus), clock=broker.clock, tick_seconds=0
    )
    broker.send(vacuum(7))
    gate.step(0)
    broker.at += LIMIT_MS
    gate.step(0)

    assert len(broker.said()) == 1


def test_the_brokers_time_is_known_before_any_record_comes() -> None:
    broker = Broker()
    broker.send(vacuum(7))
    first = broker.gate()
    first.step(0)
    first.close()
    broker.at += LIMIT_MS
    broker.clock = BrokerTime(lambda: broker.at / 1000, lambda: broker.at / 1000)
    broker.gate().step(0)

    assert len(broker.said()) == 1
