"""An executor's commands over a rebalance: which of them run, and how often."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from support.memory_bus import MemoryBus
from support.samples import (
    Recorder,
    memory_bus,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from support.waiting import wait_for
from tidegate.events import Command, Outcome
from tidegate.runtime.bus import Partition
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

if TYPE_CHECKING:
    import pytest

GROUP = "tidegate.recorder"
SLOW = "lake.sales.slow"


class Gated(Recorder):
    """Commands of the slow table wait for `go_on`, the others do not."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun: Counter[str] = Counter()

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        self.begun[command.event_id] += 1
        if command.table == SLOW:
            assert self.go_on.wait(60)
        yield from super().execute(command)


def commands(table: str, count: int) -> list[str]:
    return [savepoint_request(n, table).event_id for n in range(count)]


def step_until(what: str, loop: ExecutorLoop, look: Callable[[], bool]) -> None:
    def step_and_look() -> bool:
        loop.step(0.001)
        return look()

    wait_for(what, step_and_look)


def rebalanced(bus: MemoryBus, loop: ExecutorLoop) -> None:
    """Everything is revoked, and comes back with the next generation."""
    bus._rebalance(GROUP)
    loop.step(0)


def with_one_slow_command() -> tuple[MemoryBus, Gated, ExecutorLoop]:
    """The first command of a partition runs, and those behind it are done."""
    bus, executor = memory_bus(partitions=1), Gated()
    bus.send([task_message(savepoint_request(0, SLOW))])
    bus.send([task_message(savepoint_request(n)) for n in range(20)])
    loop = ExecutorLoop(executor, bus, threads=2)
    step_until("the others", loop, lambda: len(outcomes_on(bus)) == 20)
    return bus, executor, loop


def test_what_runs_is_not_run_beside_itself_when_its_partition_comes_back() -> None:
    bus, executor, loop = with_one_slow_command()
    rebalanced(bus, loop)
    loop.step(0.01)
    bus.send([task_message(savepoint_request(20))])
    step_until("the new one", loop, lambda: len(executor.begun) == 22)
    [slow] = commands(SLOW, 1)
    assert executor.begun[slow] == 1
    executor.go_on.set()
    work_off(loop)

    assert executor.begun[slow] == 2  # a worker finds its own claim on the table by then
    assert bus.committed[GROUP] == {Partition("tidegate.tasks", 0): 22}
    loop.close()


def test_queued_commands_do_not_start_before_their_partition_has_come_back() -> None:
    bus, executor = memory_bus(partitions=1), Gated()
    bus.send([task_message(savepoint_request(n, SLOW)) for n in range(3)])
    loop = ExecutorLoop(executor, bus, threads=2)
    step_until("the first", loop, lambda: bool(executor.begun))
    partition = Partition("tidegate.tasks", 0)
    loop.revoked([partition])
    executor.go_on.set()
    wait_for("the end of the first", lambda: bool(executor.asked))
    wait_for("its thread", lambda: not loop._tasks.is_running)
    assert len(executor.begun) == 1

    loop.assigned({partition: bus.committed[GROUP].get(partition, 0)})
    loop._subscription._positions[partition] = 0  # type: ignore[attr-defined] # read again
    work_off(loop)
    assert [executor.begun[command] for command in commands(SLOW, 3)] == [2, 1, 1]
    loop.close()


def test_commands_of_a_partition_that_went_elsewhere_run_there_only() -> None:
    bus, executor = memory_bus(partitions=1), Gated()
    bus.send([task_message(savepoint_request(n, SLOW)) for n in range(3)])
    loop = ExecutorLoop(executor, bus, threads=2)
    step_until("the first", loop, lambda: bool(executor.begun))
    partition = Partition("tidegate.tasks", 0)
    loop.revoked([partition])
    executor.go_on.set()
    loop.assigned({})
    loop.close()

    assert sum(executor.begun.values()) == 1
    assert loop.pending == 0


def test_commands_that_end_soon_are_acknowledged_before_their_partition_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate.runtime.executor.loop.REVOKE_SECONDS", 60)
    bus, executor, loop = with_one_slow_command()
    threading.Timer(0.2, executor.go_on.set).start()
    loop.revoked([Partition("tidegate.tasks", 0)])

    assert bus.committed[GROUP] == {Partition("tidegate.tasks", 0): 21}
    loop.close()
