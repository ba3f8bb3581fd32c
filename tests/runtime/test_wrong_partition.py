"""A valid event on a partition that is not its table's is dead-lettered, not waited on for ever."""

from __future__ import annotations

from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.events.keys import partition_of
from tidegate.ops.dead_letters.dead_letter import read_dead_letter, redriven_message
from tidegate.runtime.executor.loop import ExecutorLoop

TABLE = "lake.sales.orders"
RIGHT = partition_of(TABLE, 3)
WRONG = (RIGHT + 1) % 3
DEAD = "tidegate.dead-letters"


def test_a_deciders_event_on_the_wrong_partition_is_dead_lettered_with_the_right_one() -> None:
    bus = memory_bus()
    bus.send([message(commit(n))._replace(partition=WRONG) for n in range(3)])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        pass

    assert bus.records("tidegate.tasks") == []
    found = bus.records(DEAD)
    reason = (dict(found[0].headers)["x-exception-message"] or b"").decode()
    assert len(found) == 3
    assert reason.startswith(f"events of {TABLE} belong on partition {RIGHT} of 3, not on {WRONG}:")
    assert reason.endswith("then redrive: that sends the event to the right partition")


def test_a_command_on_the_wrong_partition_is_not_carried_out_until_it_is_redriven() -> None:
    bus, recorder = memory_bus(), Recorder()
    bus.send([task_message(savepoint_request(0))._replace(partition=WRONG)])
    loop = ExecutorLoop(recorder, bus)
    work_off(loop)
    assert (recorder.asked, len(bus.records(DEAD))) == ([], 1)

    [found], [original] = bus.records(DEAD), bus.records("tidegate.tasks")
    bus.send([redriven_message(read_dead_letter(found), original)])
    work_off(loop)

    assert len(recorder.asked) == 1
    assert len(outcomes_on(bus)) == 1
