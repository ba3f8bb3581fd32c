"""A decider that decides when time alone has passed: by whose clock, and under the loop's rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from support.memory_bus import MemoryBus
from support.samples import commands_on, commit, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.partitions import BrokerTime
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import Effects
from tidegate.events import CommitCompleted, Event, SavepointRequested
from tidegate.events.fields import to_ms

TABLES = ("lake.sales.orders", "lake.sales.items", "lake.hr.staff")


class HourLater:
    """Requests a savepoint of a commit an hour after it, whether or not another event comes."""

    name: ClassVar[str] = "hour-later"
    consumes: ClassVar[tuple[type[Event], ...]] = (CommitCompleted,)
    row_types: ClassVar[Sequence[RowType]] = (RowType("last", ("due",), has_body=True),)

    def restored(self, rows: Store) -> None:
        pass

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        due = to_ms(at + timedelta(hours=1))
        rows.put("last", event.table, columns=(due,), body=event.model_dump_json())
        return Effects()

    def next_due(self, rows: Store) -> int | None:
        [due] = rows.one("select min(due) from last")
        return None if due is None else int(due)

    def due(self, rows: Store, at: datetime) -> Effects:
        effects = Effects()
        query = "select tbl, body from last where due <= ?"
        for table, body in rows.all(query, to_ms(at)):
            rows.drop("last", table)
            last = CommitCompleted.model_validate_json(body)
            effects.commands.append(
                SavepointRequested.about(last, requested_by="x", source=self.name, occurred_at=at)
            )
        return effects


class Passing:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.ahead = 0.0

    def clock(self, began: float) -> BrokerTime:
        start = self.seconds
        return BrokerTime(lambda: self.seconds, lambda: began + self.seconds - start + self.ahead)


def asked(bus: MemoryBus) -> list[str]:
    return sorted(command.table for command in commands_on(bus))


def test_a_table_that_is_due_decides_without_an_event() -> None:
    bus, time = memory_bus(), Passing()
    loop = CoordinatorLoop(
        HourLater(), bus, clock=time.clock(datetime.now(UTC).timestamp() + 60), tick_seconds=0
    )
    bus.send([message(commit(1, table)) for table in TABLES])
    loop.step(0)
    loop.step(0)
    assert asked(bus) == []

    time.seconds += 3700
    loop.step(0)
    loop.step(0)

    assert asked(bus) == sorted(TABLES)


def test_the_tasks_of_due_tables_have_the_same_order_in_every_process() -> None:
    bus, time = memory_bus(partitions=1), Passing()
    loop = CoordinatorLoop(
        HourLater(), bus, clock=time.clock(datetime.now(UTC).timestamp() + 60), tick_seconds=0
    )
    bus.send([message(commit(1, f"lake.sales.t{n:02}")) for n in range(20)])
    loop.step(0)
    time.seconds += 3700
    loop.step(0)
    loop.step(0)

    tables = [command.table for command in commands_on(bus)]
    assert tables == [f"lake.sales.t{n:02}" for n in range(20)]


def test_what_is_due_outlives_a_restart_and_is_done_once() -> None:
    bus, time = memory_bus(), Passing()
    loop = CoordinatorLoop(
        HourLater(), bus, clock=time.clock(datetime.now(UTC).timestamp() + 60), tick_seconds=0
    )
    bus.send([message(commit(1))])
    loop.step(0)
    loop.close()

    time.seconds += 7200
    later = time.clock(datetime.now(UTC).timestamp() + 9000)
    second = CoordinatorLoop(HourLater(), bus, clock=later, tick_seconds=0)
    second.step(0)
    assert asked(bus) == []  # the broker's time is not known yet
    later.saw(int((datetime.now(UTC).timestamp() + 7200) * 1000))
    second.step(0)
    second.step(0)

    assert asked(bus) == [TABLES[0]]
    second.close()
    third = CoordinatorLoop(HourLater(), bus, clock=later, tick_seconds=0)
    third.step(0)
    assert asked(bus) == [TABLES[0]]


def test_time_is_the_broker_s_and_what_passed_since() -> None:
    time = Passing()
    clock = time.clock(10_000.0)
    assert clock.now() is None

    clock.saw(9_000_000)
    time.seconds += 10

    assert clock.now() == datetime.fromtimestamp(9_010, UTC)


def test_an_old_record_does_not_turn_time_back() -> None:
    time = Passing()
    clock = time.clock(10_000.0)
    clock.saw(9_000_000)
    clock.saw(5_000_000)

    assert clock.now() == datetime.fromtimestamp(9_000, UTC)


def test_a_record_of_the_future_does_not_make_anything_due_early() -> None:
    time = Passing()
    clock = time.clock(10_000.0)
    clock.saw(99_000_000_000)

    assert clock.now() == datetime.fromtimestamp(10_000, UTC)
