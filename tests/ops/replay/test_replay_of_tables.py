"""A replay for some tables: the partition goes back, and the other tables pass over it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.memory_bus import MemoryBus
from support.policies import checked_after, every_commit
from support.samples import commit, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.coordinator.store import AHEAD, Position, Store, row_key
from tidegate.errors import ConfigError
from tidegate.events.keys import murmur2, partition_of
from tidegate.events.message import event_of
from tidegate.ops.doctor.placement import MURMUR2
from tidegate.ops.groups import GroupInUseError
from tidegate.ops.replay.changelogs import reset_records, reset_state
from tidegate.ops.replay.plan import GroupReplay, OffsetReset, RecordCounts
from tidegate.ops.replay.tables import count_records, locate_tables
from tidegate.publisher import Message
from tidegate.runtime.bus import ChangelogRecord, Partition, Record
from tidegate.savepoints import (
    SavepointPolicy,
)

COMMITS = Partition("tidegate.commits", 0)
ORDERS, OTHER = "lake.sales.orders", "lake.sales.other"


def test_a_table_s_partition_is_the_one_that_kafka_s_own_client_computes() -> None:
    assert {key: murmur2(key.encode()) for key in MURMUR2} == {
        key: known & 0xFFFFFFFF for key, known in MURMUR2.items()
    }
    assert partition_of("lake.sales.orders", 6) == ((-158059582) & 0x7FFFFFFF) % 6


def test_a_table_on_another_partition_than_the_one_meant_is_refused() -> None:
    number = partition_of(ORDERS, 6)

    assert locate_tables(["LAKE.Sales.orders"], 6, only=None) == {ORDERS: number}
    assert locate_tables([ORDERS], 6, only=number) == {ORDERS: number}
    with pytest.raises(ConfigError, match=f"is on partition {number}, not on"):
        locate_tables([ORDERS], 6, only=(number + 1) % 6)
    with pytest.raises(ConfigError, match="not a table name of the form catalog"):
        locate_tables(["orders"], 6, only=None)


def record(offset: int, key: bytes | None, partition: Partition = COMMITS) -> Record:
    return Record(partition, offset, key, b"", (), 0)


def test_a_plan_tells_the_tables_records_from_those_that_come_along() -> None:
    locks = Partition("tidegate.locks", 0)
    away = Partition("tidegate.vacuums", 0)
    resets = (
        OffsetReset(COMMITS, 4, 0, 4),
        OffsetReset(locks, 1, 0, 1),
        OffsetReset(away, 9, 3, 0, fault="gone"),
    )
    plan = GroupReplay("coordinator", "g", resets, tables={ORDERS: 0})
    records = [
        record(0, ORDERS.encode()),
        record(1, OTHER.encode()),
        record(2, None),
        record(3, b"\xff"),
        record(0, OTHER.encode(), locks),
    ]

    counted = count_records(plan, records)

    # the locks have nothing of the table and stay; what would not start is put right
    assert [reset.partition for reset in counted.resets] == [COMMITS, away]
    assert counted.resets[0].counts == RecordCounts({ORDERS: 1}, 3, frozenset({OTHER}))
    assert counted.resets[1].counts == RecordCounts({}, 0, frozenset())


def kept() -> Store:
    """A table's row, another's own position, and how far the partition has got."""
    store = Store(())
    position = Position({"c": 9, "l": 3}, {"c": "old", "l": "L"})
    ahead = row_key(ORDERS, AHEAD.name)
    store.restore(
        [(b"lake.x.y\x00vacuum\x007", b"[1]"), (ahead, b'[]\n{"c":12,"l":2}'), position.record()]
    )
    return store


def ahead_of(records: Sequence[ChangelogRecord]) -> dict[str, dict[str, int]]:
    """The tables' own positions after a reset."""
    store = Store(())
    store.restore(records)
    return store.ahead


def to(offset: int, counts: RecordCounts | None = None, *, is_for_all: bool = False) -> OffsetReset:
    return OffsetReset(
        Partition("c", 0), 9, offset, 9 - offset, is_for_all=is_for_all, counts=counts
    )


POSITION = Position({"c": 4, "l": 3}, {"c": "new", "l": "L"}).record()


def test_the_position_goes_back_and_the_rows_stay() -> None:
    written = reset_records(kept(), [to(4)], {"c": "new"})

    assert written == [(row_key(ORDERS, AHEAD.name), None), POSITION]


def test_of_a_partition_that_goes_back_for_one_table_the_others_are_applied_as_before() -> None:
    counts = RecordCounts({ORDERS: 1}, 2, frozenset({OTHER, "lake.sales.empty"}))

    written = reset_records(kept(), [to(4, counts)], {"c": "new"}, {ORDERS})

    assert written[-1] == POSITION
    assert ahead_of(written) == {OTHER: {"c": 9}, "lake.sales.empty": {"c": 9}}


def test_a_table_that_is_ahead_stays_so_where_another_is_replayed() -> None:
    counts = RecordCounts({OTHER: 1}, 1, frozenset({ORDERS}))

    written = reset_records(kept(), [to(4, counts)], {"c": "new"}, {OTHER})

    assert ahead_of(written) == {ORDERS: {"c": 12, "l": 2}}


def test_on_a_topic_that_was_created_again_no_table_s_offsets_count() -> None:
    counts = RecordCounts({ORDERS: 1}, 1, frozenset({OTHER}))

    written = reset_records(kept(), [to(0, counts, is_for_all=True)], {"c": "new"}, {ORDERS})

    assert ahead_of(written) == {}


def savepoints_on(*tables: str) -> SavepointPolicy:
    return SavepointPolicy(rules=tuple(every_commit(table) for table in tables))


def send(bus: MemoryBus, events: list[tuple[int, str]]) -> None:
    for number, table in events:
        sent = message(commit(number, table))
        bus.send([Message(sent.topic, sent.key, sent.value, sent.headers, 0)])


def work(bus: MemoryBus, policy: SavepointPolicy) -> None:
    loop = CoordinatorLoop(SavepointSubject(policy), bus)
    while loop.step(0):
        pass
    loop.close()


def asked(bus: MemoryBus) -> list[tuple[str, int]]:
    commands = (event_of(sent.key, sent.value) for sent in bus.records("tidegate.commands"))
    return checked_after(commands)


def test_what_one_table_missed_is_made_up_for_and_what_others_missed_is_not() -> None:
    bus = memory_bus(partitions=1)
    group = "tidegate.coordinator"
    third = "lake.sales.third"
    send(bus, [(1, ORDERS), (2, OTHER), (3, third)])
    work(bus, savepoints_on())
    send(bus, [(4, OTHER), (5, ORDERS)])
    work(bus, savepoints_on(OTHER))
    assert asked(bus) == [(OTHER, 4)]
    counts = RecordCounts({ORDERS: 2}, 3, frozenset({OTHER, third}))
    resets = (OffsetReset(COMMITS, 5, 0, 5, applied=5, counts=counts),)
    plan = GroupReplay("coordinator", group, resets, tables={ORDERS: 0})

    reset_state(bus, "tidegate", plan)
    bus.committed[group][COMMITS] = 0
    send(bus, [(6, OTHER), (7, third)])
    work(bus, savepoints_on("*"))

    # of the others what was applied without a command (2 and 3) stays as it was decided then
    assert asked(bus)[1:] == [(ORDERS, 1), (ORDERS, 5), (OTHER, 6), (third, 7)]


def test_a_memory_that_went_on_since_the_plan_is_left_alone() -> None:
    bus = memory_bus(partitions=1)
    send(bus, [(1, ORDERS)])
    work(bus, savepoints_on("*"))
    before = bus.records("tidegate.coordinator.changelog")[:]
    resets = (OffsetReset(COMMITS, 0, 0, 0, applied=None),)
    plan = GroupReplay("coordinator", "tidegate.coordinator", resets)

    with pytest.raises(GroupInUseError, match="plan again"):
        reset_state(bus, "tidegate", plan)

    assert bus.records("tidegate.coordinator.changelog") == before
