"""A second replay before the service ran: the first one's protection gives way where it is meant.

What a replay for one table gave the others, positions of their own, lies beyond the partition's.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.samples import commit, events_on, memory_bus, message
from tidegate.events import SavepointRequested
from tidegate.replay.memory import put_memory_back, recall
from tidegate.replay.plan import GroupReplay, Standing, plan_group
from tidegate.replay.tables import shared_out
from tidegate.replay.targets import Target, ToEarliest, ToOffset
from tidegate.runtime.bus import Partition
from tidegate.runtime.decider_loop import DeciderLoop
from tidegate.runtime.memory import MemoryBus
from tidegate.savepoints import (
    SavepointMode,
    SavepointPolicy,
    SavepointPolicyService,
    SavepointRule,
)

COMMITS = Partition("tidegate.commits", 0)
CHANGELOG = Partition("tidegate.savepoint-policy.changelog", 0)
DECIDER, GROUP = "savepoint-policy", "tidegate.savepoint-policy"
ORDERS, OTHER, THIRD = "lake.sales.orders", "lake.sales.other", "lake.sales.third"


def work(bus: MemoryBus, pattern: str) -> None:
    rules = (SavepointRule(pattern=pattern, mode=SavepointMode.EVERY_COMMIT),)
    loop = DeciderLoop(SavepointPolicyService(SavepointPolicy(rules=rules)), bus)
    while loop.step(0):
        pass
    loop.close()


def asked(bus: MemoryBus) -> list[tuple[str, int]]:
    return [
        (each.table, int(each.instant[-3:]))
        for each in events_on(bus, "tidegate.commands")
        if isinstance(each, SavepointRequested) and each.instant
    ]


@pytest.fixture
def bus() -> MemoryBus:
    """Two commits of each table, which no rule covered then."""
    made = memory_bus(DECIDER, partitions=1)
    told = enumerate([ORDERS, OTHER, THIRD] * 2, start=1)
    made.send([message(commit(number, table)) for number, table in told])
    work(made, "none.none.none")
    return made


def plan(bus: MemoryBus, *tables: str, target: Target | None = None) -> GroupReplay:
    memory = recall(bus, CHANGELOG, [COMMITS.topic], tables or None)
    standing = Standing(range(6), bus.committed[GROUP][COMMITS], memory=memory[COMMITS])
    made = plan_group(DECIDER, GROUP, {COMMITS: standing}, target or ToEarliest())
    if not tables:
        return made
    spans = [move.span for move in made.moves]
    records = [each for each in bus.log(COMMITS) if any(each.offset in span for span in spans)]
    return shared_out(replace(made, tables=dict.fromkeys(tables, 0)), records)


def execute(bus: MemoryBus, made: GroupReplay) -> None:
    put_memory_back(bus, "tidegate", made)
    bus.committed[GROUP] |= {move.partition: move.to_offset for move in made.moves}


def test_a_table_replayed_right_after_another_of_its_partition_is_read_again_too(
    bus: MemoryBus,
) -> None:
    execute(bus, plan(bus, ORDERS))

    second = plan(bus, OTHER)
    assert [(move.from_offset, move.to_offset, move.again) for move in second.moves] == [(0, 0, 6)]
    assert [move.share.of_tables for move in second.moves if move.share] == [{OTHER: 2}]
    execute(bus, second)
    work(bus, "*")

    assert asked(bus) == [(ORDERS, 1), (OTHER, 2), (ORDERS, 4), (OTHER, 5)]


def test_all_tables_replayed_right_after_one_are_read_again(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS))

    second = plan(bus)
    assert [(move.to_offset, move.again) for move in second.moves] == [(0, 6)]
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

    [move] = plan(bus, OTHER).moves
    assert (move.to_offset, move.again) == (0, 6)
    assert move.share
    assert move.share.of_tables == {OTHER: 2}


def test_what_stands_there_already_is_left_alone(bus: MemoryBus) -> None:
    execute(bus, plan(bus, ORDERS))
    assert plan(bus, ORDERS).moves == ()

    execute(bus, plan(bus))
    assert plan(bus, OTHER).moves == ()
    assert plan(bus).moves == ()
