"""A reader gate put back for one table: what it forgot of another does not come back to life."""

from __future__ import annotations

from collections.abc import Iterable

from support.memory_bus import MemoryBus
from support.rows import restored
from support.samples import NOON, commands_on, end_tasks, memory_bus, message, release
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.vacuums import WaitingVacuum, waiting_vacuums
from tidegate.events import CleaningReleased, Event, VacuumFinished
from tidegate.ops.replay.changelogs import reset_state
from tidegate.ops.replay.plan import GroupReplay, OffsetReset, RecordCounts
from tidegate.runtime.bus import Partition

ORDERS, OTHER = "lake.sales.orders", "lake.sales.other"
GROUP = "tidegate.coordinator"
FORGETFUL = ReaderGate(remember_most=8)


def vacuum(lock_id: int, table: str) -> VacuumFinished:
    return VacuumFinished.model_validate(
        {
            "table": table,
            "location": "/lake/t",
            "occurred_at": NOON,
            "source": "compactor",
            "kind": "minor",
            "directories": (f"delta_{lock_id:07}_{lock_id + 1:07}",),
            "min_write_id": lock_id,
            "max_write_id": lock_id + 1,
            "valid_write_ids": f"sales.t:{lock_id + 1}:9223372036854775807::",
            "own_lock_id": lock_id,
            "locks": [{"lock_id": lock_id}],
        }
    )


def send(bus: MemoryBus, events: Iterable[Event]) -> None:
    bus.send([message(event) for event in events])


def work(bus: MemoryBus) -> None:
    loop = CoordinatorLoop(FORGETFUL, bus)
    end_tasks(bus, loop)
    loop.close()


def waiting(bus: MemoryBus, table: str) -> list[WaitingVacuum]:
    records = bus.records("tidegate.coordinator.changelog")
    store = restored(FORGETFUL, [(record.key or b"", record.value) for record in records])
    return [vacuum for vacuum in waiting_vacuums(store) if vacuum.table == table]


def let_go(bus: MemoryBus) -> list[tuple[str, int]]:
    said = commands_on(bus)
    return [
        (event.table, event.min_write_id) for event in said if isinstance(event, CleaningReleased)
    ]


def test_a_vacuum_of_another_table_that_was_let_go_and_forgotten_does_not_wait_again() -> None:
    bus = memory_bus(partitions=1)
    for table, number in [(ORDERS, 1), *((OTHER, number) for number in range(10, 20))]:
        send(bus, [vacuum(number, table), release(number, table)])
        work(bus)
    before = let_go(bus)
    assert len(before) == 11
    counts = RecordCounts({ORDERS: 1}, 10, frozenset({OTHER}))
    resets = tuple(
        OffsetReset(Partition(topic, 0), 11, 0, 11, applied=11, counts=counts)
        for topic in ("tidegate.locks", "tidegate.vacuums")
    )

    reset_state(bus, "tidegate", GroupReplay("coordinator", GROUP, resets, tables={ORDERS: 0}))
    bus.committed[GROUP] |= {reset.partition: 0 for reset in resets}
    send(bus, [release(99, OTHER), vacuum(98, OTHER)])  # it changes while the replay lasts
    work(bus)

    assert let_go(bus) == before
    assert [vacuum_.vacuum.min_write_id for vacuum_ in waiting(bus, OTHER)] == [98]
