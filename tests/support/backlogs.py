"""Executors that can be held up, and looks at what waits in their loops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from tidegate.runtime.executor.backlog import BacklogLimits

from support.samples import Recorder
from tidegate.events import Command, Outcome
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed

HOT, HEALTHY = "lake.sales.hot", "lake.sales.healthy"
FEW = BacklogLimits(commands=40)
"""Four commands of one table are in memory."""


class Gated(Recorder):
    """Commands of the hot table wait for `go_on`, the others do not."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def execute(
        self,
        command: Command,
        claim: Unclaimed = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        if command.table == HOT:
            assert self.go_on.wait(60)
        yield from super().execute(command)


def step_until(what: str, loop: ExecutorLoop, look: Callable[[], bool]) -> None:
    """Step without a rest until the condition holds."""
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, f"{what} did not happen"
        loop.step(0.005)


def in_memory(loop: ExecutorLoop) -> int:
    """How many commands are queued."""
    return sum(len(queue.tasks) for queue in loop._tasks._queues.values())
