"""A valid event on a partition that is not its table's is dead-lettered, not waited on for ever."""

from __future__ import annotations

from collections.abc import Sequence

from support.memory_bus import MemoryBus
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    outcomes_on,
    savepoint_request,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.events.topics import ALL_TOPICS, partition_of
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import read_dead_letter, redriven_message
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop

TABLE = "lake.sales.orders"
RIGHT = partition_of(TABLE, 3)
WRONG = (RIGHT + 1) % 3
DEAD, TASKS = "tidegate.dead-letters", "tidegate.tasks"


def test_a_deciders_event_on_the_wrong_partition_is_dead_lettered_with_the_right_one() -> None:
    bus = memory_bus()
    bus.send([message(commit(n))._replace(partition=WRONG) for n in range(3)])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        pass

    assert bus.records("tidegate.outcomes") == []
    found = bus.records(DEAD)
    reason = (dict(found[0].headers)["x-exception-message"] or b"").decode()
    assert len(found) == 3
    assert reason.startswith(f"events of {TABLE} belong on partition {RIGHT} of 3, not on {WRONG}:")
    assert reason.endswith("then redrive: that sends the event to the right partition")


class Misplacing(MemoryBus):
    """Puts tasks on the wrong partition while `is_wrong`."""

    is_wrong = True

    def send(self, messages: Sequence[Message]) -> None:
        for sent in messages:
            is_misplaced = self.is_wrong and sent.topic == TASKS
            super().send([sent._replace(partition=WRONG) if is_misplaced else sent])


def test_a_task_on_the_wrong_partition_is_not_carried_out_until_it_is_redriven() -> None:
    bus, recorder = Misplacing([topic.name() for topic in ALL_TOPICS], 3), Recorder()
    coordinator, worker = CoordinatorLoop(EveryThird(), bus), ExecutorLoop(recorder, bus)

    def run() -> None:
        for _ in range(3):
            while coordinator.step(0):
                pass
            work_off(worker)

    bus.send([message(savepoint_request(0)), message(savepoint_request(1))])
    run()
    assert (recorder.asked, len(bus.records(DEAD))) == ([], 1)

    bus.is_wrong = False
    [found], [original] = bus.records(DEAD), bus.records(TASKS)
    bus.send([redriven_message(read_dead_letter(found, Wire()), original)])
    run()

    assert recorder.asked == [str(savepoint_request(n).instant) for n in range(2)]
    assert len(outcomes_on(bus)) == 2
    worker.close()
    coordinator.close()
