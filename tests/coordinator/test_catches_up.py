"""A gate that was down reads requests, then vacuums, then releases; its memory is bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.acid import TABLE
from support.markers import marker_behind
from support.memory_bus import MemoryBus
from support.samples import NOON, commands_on, end_tasks, events_on, memory_bus, message, release
from support.waiting import wait_for
from tidegate.coordinator.loop import CHUNK, CoordinatorLoop
from tidegate.coordinator.memory import Limits
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.store import Store
from tidegate.events import (
    CleaningHeld,
    CleaningHoldRemovalRequested,
    CleaningHoldRequested,
    Event,
    TaskIssued,
    VacuumFinished,
    VacuumFlag,
    VacuumFlagged,
)
from tidegate.events.wire import Wire, command_of
from tidegate.ops.topics import create_topics
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings

HOLD = CleaningHoldRequested(
    table=TABLE,
    location="/wh/t",
    occurred_at=NOON,
    source="ana",
    event_id="hold-1",
    requested_by="ana",
    reason="an audit",
)
REMOVAL = CleaningHoldRemovalRequested.model_validate(
    HOLD.model_dump() | {"event_id": "removal-1", "reason": "it is done"}
)
FORGETFUL = ReaderGate(remembers=Limits(number=CHUNK))
BACKLOG = 10 * CHUNK


def vacuum(*locks: int) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "table": TABLE,
            "location": "/wh/t",
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (f"delta_{locks[0]:07}_{locks[0]:07}",),
            "min_write_id": locks[0],
            "max_write_id": locks[0],
            "valid_write_ids": "default.t:9:9223372036854775807::",
            "own_lock_id": locks[0],
            "locks": [{"lock_id": lock} for lock in locks],
        }
    )


def send(bus: MemoryBus, *events: Event) -> None:
    bus.send([message(event) for event in events])


def run_gate(bus: MemoryBus) -> None:
    """A process that works off what there is, and leaves."""
    loop = CoordinatorLoop(FORGETFUL, bus)
    end_tasks(bus, loop)
    loop.close()


def released(bus: MemoryBus) -> list[str | None]:
    return [item.caused_by for item in commands_on(bus)]


def flags(bus: MemoryBus) -> list[VacuumFlagged]:
    found = events_on(bus, "tidegate.outcomes")
    return [item for item in found if isinstance(item, VacuumFlagged)]


def test_a_gate_that_was_down_meets_every_vacuum_before_it_forgets_its_releases() -> None:
    bus = memory_bus(partitions=1)
    run_gate(bus)
    waiting = [vacuum(n) for n in range(CHUNK, CHUNK + 30)]
    send(bus, *waiting, *(release(n, TABLE) for n in range(BACKLOG)))
    run_gate(bus)

    assert sorted(map(str, released(bus))) == sorted(item.event_id for item in waiting)
    assert flags(bus) == []


def test_what_is_remembered_of_a_backlog_is_bounded_however_long_that_is() -> None:
    store, counts = Store(FORGETFUL.row_types), list[int]()
    for number in range(3 * 4096):
        FORGETFUL.handle(release(number, TABLE), store, NOON)
        counts += store.one("select count(*) from ended")
    assert max(counts) <= CHUNK + 4096


def test_the_other_inputs_go_on_once_the_first_has_caught_up() -> None:
    bus = memory_bus(partitions=1)
    send(bus, REMOVAL, vacuum(1), *(release(n, TABLE) for n in range(2 * CHUNK)))
    run_gate(bus)
    send(bus, vacuum(5_001), release(5_001, TABLE))
    run_gate(bus)

    ends = {part: len(bus.log(part)) for part in bus.committed["tidegate.coordinator"]}
    assert ends == bus.committed["tidegate.coordinator"]
    assert len(released(bus)) == 2


def test_an_end_that_holds_no_record_does_not_hold_up_the_others() -> None:
    bus = memory_bus(partitions=1)
    send(bus, REMOVAL, vacuum(2 * CHUNK - 1), *(release(n, TABLE) for n in range(2 * CHUNK)))
    with marker_behind("tidegate.requests"):
        loop = CoordinatorLoop(FORGETFUL, bus)
        for _ in range(10):
            loop.step(0)

    assert len(released(bus)) == 1
    committed = bus.committed["tidegate.coordinator"]
    assert committed[Partition("tidegate.locks", 0)] == 2 * CHUNK
    assert committed[Partition("tidegate.requests", 0)] == 2


def test_a_release_that_was_forgotten_all_the_same_heals_when_it_is_published_again() -> None:
    bus = memory_bus(partitions=1)
    send(bus, *(release(n, TABLE) for n in range(BACKLOG)))
    run_gate(bus)
    late = vacuum(7, 20_000)
    send(bus, late, release(20_000, TABLE))  # published only now, though lock 7 ended long ago
    run_gate(bus)
    [flag] = flags(bus)
    assert (flag.flag, flag.caused_by) == (VacuumFlag.RELEASE_MAY_BE_FORGOTTEN, late.event_id)
    assert (flag.locks, released(bus)) == ((7,), [])

    send(bus, *(release(lock, TABLE) for lock in flag.locks))
    run_gate(bus)
    assert released(bus) == [late.event_id]


def test_a_hold_of_yesterday_comes_before_a_release_of_today() -> None:
    bus = memory_bus(partitions=1)
    send(bus, vacuum(1), release(1, TABLE), HOLD)  # by topic, the hold would come last
    run_gate(bus)

    assert released(bus) == []
    assert [type(item) for item in events_on(bus, "tidegate.outcomes")] == [CleaningHeld]


def bus_event(record: Record) -> TaskIssued:
    event = Wire().deserialize(record.key, record.value)
    assert isinstance(event, TaskIssued)
    return event


@pytest.mark.kafka
def test_on_a_real_broker_too_a_hold_comes_before_the_first_event(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    connection = {"bootstrap.servers": bootstrap_servers}
    create_topics(connection, TopicSettings(prefix=topic_prefix, partitions=1))
    bus = KafkaBus(connection)
    bus.send([message(event, topic_prefix) for event in (vacuum(1), release(1, TABLE), HOLD)])
    loop, done = CoordinatorLoop(FORGETFUL, bus, topic_prefix), [0]
    polled: list[str] = []
    poll = loop._subscription.poll

    def watched(limit: int, timeout: float) -> Sequence[Record]:
        records = poll(limit, timeout)
        polled.extend(record.partition.topic for record in records)
        return records

    loop._subscription.poll = watched  # type: ignore[method-assign]

    def all_read() -> bool:
        done[0] += loop.step(0.2)
        return done[0] >= 3

    wait_for("all events", all_read)
    loop.close()
    tasks = list(bus.log(Partition(f"{topic_prefix}.tasks", 0)))
    bus.close()
    assert tasks == []
    assert polled[0] == f"{topic_prefix}.requests"


@pytest.mark.kafka
def test_on_a_real_broker_the_other_inputs_go_on_too(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    connection = {"bootstrap.servers": bootstrap_servers}
    create_topics(connection, TopicSettings(prefix=topic_prefix, partitions=1))
    bus = KafkaBus(connection)
    events = [REMOVAL, vacuum(2 * CHUNK), *(release(n, TABLE) for n in range(2 * CHUNK + 1))]
    bus.send([message(event, topic_prefix) for event in events])
    loop, done = CoordinatorLoop(FORGETFUL, bus, topic_prefix), [0]

    def all_read() -> bool:
        done[0] += loop.step(0.2)
        return done[0] >= len(events)

    wait_for("all events", all_read)
    loop.close()
    [task] = map(bus_event, bus.log(Partition(f"{topic_prefix}.tasks", 0)))
    bus.close()
    assert command_of(task, Wire()).caused_by == events[1].event_id
