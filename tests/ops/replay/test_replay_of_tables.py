"""A replay on the coordinator's changelog: the positions go back, and the rows stay."""

from __future__ import annotations

import pytest

from support.memory_bus import MemoryBus
from support.policies import checked_after, every_commit
from support.samples import commands_on, commit, end_tasks, memory_bus, message
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.savepoints import SavepointSubject
from tidegate.errors import TidegateError
from tidegate.ops.groups import changed_position
from tidegate.ops.replay.group import (
    _GroupPosition,
    _GroupReplay,
    _OffsetReset,
    plan_group,
    reset_state,
    with_applied,
)
from tidegate.runtime.bus import Partition

COMMITS = Partition("tidegate.commits", 0)
GROUP = "tidegate.coordinator"
ORDERS, OTHER = "lake.sales.orders", "lake.sales.other"


def work(bus: MemoryBus, pattern: str) -> None:
    rules = (every_commit(pattern),)
    loop = CoordinatorLoop(SavepointSubject(rules), bus)
    end_tasks(bus, loop)
    loop.close()


def asked(bus: MemoryBus) -> list[tuple[str, int]]:
    return checked_after(commands_on(bus))


@pytest.fixture
def bus() -> MemoryBus:
    """Two commits of each table, of which a rule covered one table alone."""
    made = memory_bus(partitions=1)
    made.send([message(commit(n, table)) for n, table in enumerate([ORDERS, OTHER] * 2, start=1)])
    work(made, OTHER)
    return made


def plan(bus: MemoryBus, to_offset: int = 0) -> _GroupReplay:
    position = _GroupPosition(range(4), bus.committed[GROUP][COMMITS])
    positions = with_applied(bus, "tidegate", {COMMITS: position})
    return plan_group("coordinator", GROUP, positions, to_offset)


def execute(bus: MemoryBus, made: _GroupReplay) -> None:
    reset_state(bus, "tidegate", made)
    bus.committed[GROUP] |= {reset.partition: reset.to_offset for reset in made.resets}


def test_what_was_missed_is_made_up_for_and_what_was_done_keeps_its_rows(bus: MemoryBus) -> None:
    assert asked(bus) == [(OTHER, 2), (OTHER, 4)]
    before = {record.key for record in bus.records("tidegate.coordinator.changelog")}

    execute(bus, plan(bus))
    written = {record.key for record in bus.records("tidegate.coordinator.changelog")}
    work(bus, "*")

    assert written == before
    assert {(ORDERS, 1), (ORDERS, 3)} <= set(asked(bus)[2:])


def test_a_second_replay_before_the_service_ran_goes_further_back(bus: MemoryBus) -> None:
    execute(bus, plan(bus, 2))
    assert plan(bus, 2).resets == ()

    [reset] = plan(bus).resets
    assert (reset.from_offset, reset.to_offset, reset.again) == (2, 0, 2)


def test_a_state_that_went_on_since_the_plan_is_left_alone(bus: MemoryBus) -> None:
    stale = _GroupReplay("coordinator", GROUP, (_OffsetReset(COMMITS, 2, 0, 2, applied=2),))
    before = bus.records("tidegate.coordinator.changelog")[:]

    with pytest.raises(TidegateError, match="plan again"):
        reset_state(bus, "tidegate", stale)

    assert bus.records("tidegate.coordinator.changelog") == before


def test_events_of_a_recreated_topic_are_not_taken_for_those_of_lost_rows(bus: MemoryBus) -> None:
    """A request among them could not be withdrawn: it may have begun, by the lost rows."""
    with changed_position(bus, "tidegate", 0) as position:
        position.rebuilt_to |= {COMMITS.topic: 4, "tidegate.requests": 3}
    bus.recreate(COMMITS.topic)
    again = _OffsetReset(COMMITS, 4, 0, 0, applied=4)

    reset_state(bus, "tidegate", _GroupReplay("coordinator", GROUP, (again,)))

    with changed_position(bus, "tidegate", 0) as position:
        assert position.rebuilt_to == {"tidegate.requests": 3}
