"""A second replay before the service ran: the first one's protection gives way where it is meant.

What a replay for one table gave the others, positions of their own, lies beyond the partition's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.memory_bus import MemoryBus
from support.policies import checked_after, every_commit
from support.samples import commit, events_on, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.ops.replay.changelogs import applied_positions, reset_state
from tidegate.ops.replay.plan import GroupPosition, GroupReplay, plan_group
from tidegate.ops.replay.tables import count_records
from tidegate.ops.replay.targets import Target, ToEarliest, ToOffset
from tidegate.runtime.bus import Partition
from tidegate.savepoints import SavepointPolicy

COMMITS = Partition("tidegate.commits", 0)
CHANGELOG = Partition("tidegate.coordinator.changelog", 0)
DECIDER, GROUP = "coordinator", "tidegate.coordinator"
ORDERS, OTHER, THIRD = "lake.sales.orders", "lake.sales.other", "lake.sales.third"


def work(bus: MemoryBus, pattern: str) -> None:
    rules = (every_commit(pattern),)
    loop = CoordinatorLoop(SavepointSubject(SavepointPolicy(rules=rules)), bus)
    while loop.step(0):
        pass
    loop.close()


def asked(bus: MemoryBus) -> list[tuple[str, int]]:
    return checked_after(events_on(bus, "tidegate.commands"))


@pytest.fixture
def bus() -> MemoryBus:
    """Two commits of each table, which no rule covered then."""
    made = memory_bus(partitions=1)
    shown = enumerate([ORDERS, OTHER, THIRD] * 2, start=1)
    made.send([message(commit(number, table)) for number, table in shown])
    work(made, "none.none.none")
    return made


def plan(bus: MemoryBus, *tables: str, target: Target | None = None) -> GroupReplay:
    memory = applied_positions(bus, CHANGELOG, [COMMITS.topic], tables or None)
    position = GroupPosition(range(6), bus.committed[GROUP][COMMITS], changelog=memory[COMMITS])
    made = plan_group(DECIDER, GROUP, {COMMITS: position}, target or ToEarliest())
    if not tables:
        return made
    spans = [reset.span for reset in made.resets]
    records = [
        record for record in bus.log(COMMITS) if any(record.offset in span for span in spans)
    ]
    return count_records(replace(made, tables=dict.fromkeys(tables, 0)), records)


def execute(bus: MemoryBus, made: GroupReplay) -> None:
    reset_state(bus, "tidegate", made)
    bus.committed[GROUP] |= {reset.partition: reset.to_offset for reset in made.resets}


def test_a_table_replayed_right_after_another_of_its_partition_is_read_again_too(
    bus: MemoryBus,
) -> None:
    execute(bus, plan(bus, ORDERS))

    second = plan(bus, OTHER)
    assert [(reset.from_offset, reset.to_offset, reset.again) for reset in second.resets] == [
        (0, 0, 6)
    ]
    assert [reset.counts.by_table for reset in second.resets if reset.counts] == [{OTHER: 2}]
    execute(bus, second)
    work(bus, "*")

    assert asked(bus) == [(ORDERS, 1), (OTHER, 2), (ORDERS, 4), (OTHER, 5)]


def test_all_tables_replayed_right_after_one_are_read_again(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS))

    second = plan(bus)
    assert [(reset.to_offset, reset.again) for reset in second.resets] == [(0, 6)]
    execute(bus, second)
    work(bus, "*")

    assert [number for _, number in asked(bus)] == [1, 2, 3, 4, 5, 6]


def test_a_second_replay_further_back_leaves_the_first_where_it_is(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS, target=ToOffset(2)))
    execute(bus, plan(bus, OTHER, target=ToOffset(1)))
    work(bus, "*")

    assert asked(bus) == [(OTHER, 2), (ORDERS, 4), (OTHER, 5)]


def test_the_second_replay_counts_up_to_where_its_table_was_applied(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS, target=ToOffset(2)))

    [reset] = plan(bus, OTHER).resets
    assert (reset.to_offset, reset.again) == (0, 6)
    assert reset.counts
    assert reset.counts.by_table == {OTHER: 2}


def test_what_stands_there_already_is_left_alone(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS))
    assert plan(bus, ORDERS).resets == ()

    execute(bus, plan(bus))
    assert plan(bus, OTHER).resets == ()
    assert plan(bus).resets == ()
