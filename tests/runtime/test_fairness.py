"""Tables do not hold each other up: neither by faults, nor by many commands, nor by a long one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    Recorder,
    memory_bus,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from support.waiting import wait_for
from tidegate.errors import TransientError
from tidegate.events import Command, Outcome, RestoreRequested
from tidegate.runtime.executor.keyed_executor import KeyedExecutor
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import RetryPolicy
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

OUTCOMES = "tidegate.outcomes"
DEAD = "tidegate.dead-letters"
BROKEN = [f"lake.sales.broken_{n}" for n in range(4)]
HEALTHY = "lake.sales.healthy"
AN_HOUR = RetryPolicy(attempts=60, first=60.0, longest=60.0)
SOON = 60.0
"""Seconds: far below the waits between the attempts."""


def restore_request(number: int) -> RestoreRequested:
    """A command for another service."""
    return RestoreRequested.model_validate(
        {
            "table": f"lake.sales.other_{number}",
            "location": "/lake/other",
            "event_id": f"request-{number}",
            "occurred_at": NOON,
            "source": "test",
            "savepoint": "20261121120000000",
            "requested_by": "ana",
            "reason": "bad",
        }
    )


class StorageAway(Recorder):
    """The storage of some tables does not answer."""

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        if command.table in BROKEN:
            self.asked.append(command.table)
            raise TransientError("the storage does not answer")
        yield from super().execute(command)


class HangingStorage(Recorder):
    """The storage of some tables keeps every attempt waiting, until a time-out that never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: Counter[str] = Counter()
        self.go_on = threading.Event()

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        if command.table in BROKEN:
            self.attempts[command.table] += 1
            if self.attempts[command.table] > 1:
                self.go_on.wait(60)
            raise TransientError("the storage does not answer")
        yield from super().execute(command)


def done(bus: MemoryBus) -> list[str]:
    return [event.table for event in outcomes_on(bus)]


def step_until(loop: ExecutorLoop, what: str, condition: Callable[[], bool]) -> None:
    def look() -> bool:
        loop.step(0.01)
        return condition()

    wait_for(what, look, SOON)


def run_until_done(loop: ExecutorLoop, bus: MemoryBus, count: int) -> None:
    step_until(loop, f"{count} outcomes", lambda: len(done(bus)) >= count)


def test_four_tables_whose_storage_is_away_do_not_hold_up_a_healthy_one() -> None:
    bus, executor = memory_bus(), StorageAway()
    bus.send([task_message(savepoint_request(n, table)) for n in range(3) for table in BROKEN])
    loop = ExecutorLoop(executor, bus, threads=4, retries=AN_HOUR)
    step_until(loop, "the first attempts", lambda: len(executor.asked) >= 4)
    bus.send([task_message(savepoint_request(n, HEALTHY)) for n in range(5)])

    run_until_done(loop, bus, 5)
    loop.close()
    assert sorted(executor.asked[:4]) == BROKEN
    assert done(bus) == [HEALTHY] * 5


def test_retries_that_hang_leave_a_thread_to_the_healthy_tables() -> None:
    bus, executor = memory_bus(), HangingStorage()
    bus.send([task_message(savepoint_request(0, table)) for table in BROKEN])
    quick = RetryPolicy(attempts=60, first=0.001, longest=0.001)
    loop = ExecutorLoop(executor, bus, threads=3, retries=quick)

    def two_hang() -> bool:
        return sum(attempt > 1 for attempt in executor.attempts.values()) >= 2

    step_until(loop, "two attempts that hang", two_hang)
    bus.send([task_message(savepoint_request(n, HEALTHY)) for n in range(5)])
    try:
        run_until_done(loop, bus, 5)
    finally:
        executor.go_on.set()
        loop.close()


def test_tables_take_turns_however_many_commands_one_of_them_has() -> None:
    go_on, bus = threading.Event(), memory_bus(partitions=1)

    class Gated(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            assert go_on.wait(SOON)
            yield from super().execute(command)

    hot = "lake.sales.hot"
    bus.send([task_message(savepoint_request(n, hot)) for n in range(50)])
    bus.send([task_message(savepoint_request(n, HEALTHY)) for n in range(3)])
    loop = ExecutorLoop(Gated(), bus, threads=1)
    assert loop.step(0) == 53
    go_on.set()
    work_off(loop)

    assert done(bus)[:7] == [hot, HEALTHY, hot, HEALTHY, hot, HEALTHY, hot]


def test_a_command_that_waits_for_its_next_attempt_keeps_its_tables_order() -> None:
    bus = memory_bus()
    recorder = Recorder(faults=[TransientError("storage is slow")] * 2)
    bus.send([task_message(savepoint_request(n)) for n in range(3)])
    quick = RetryPolicy(attempts=5, first=0.05, longest=0.1)
    work_off(ExecutorLoop(recorder, bus, threads=4, retries=quick))

    first, second, third = (str(savepoint_request(n).instant) for n in range(3))
    assert recorder.asked == [first, first, first, second, third]


def test_what_others_consume_does_not_fill_the_backlog_behind_a_long_command() -> None:
    go_on, bus = threading.Event(), memory_bus(partitions=1)

    class Long(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            if command.table == "lake.sales.long":
                assert go_on.wait(60)
            yield from super().execute(command)

    bus.send([task_message(savepoint_request(0, "lake.sales.long"))])
    for n in range(20):
        bus.send([task_message(restore_request(n)), task_message(savepoint_request(n, HEALTHY))])
    loop = ExecutorLoop(Long(), bus, threads=2, max_tasks=5)
    try:
        run_until_done(loop, bus, 20)
        assert sum(bus.committed["tidegate.recorder"].values()) == 0
    finally:
        go_on.set()
    work_off(loop)
    assert sum(bus.committed["tidegate.recorder"].values()) == 41


def test_commands_that_wait_for_an_attempt_do_not_delay_the_end() -> None:
    bus, executor = memory_bus(partitions=1), StorageAway()
    bus.send([task_message(savepoint_request(0, table)) for table in BROKEN])
    loop = ExecutorLoop(executor, bus, threads=4, retries=AN_HOUR)
    step_until(loop, "the first attempts", lambda: len(executor.asked) >= 4)

    assert loop.close(SOON), "it waited for the next attempt, in an hour"
    assert (bus.committed["tidegate.recorder"], bus.records(DEAD)) == ({}, [])


def test_a_lost_partitions_queued_commands_do_not_run() -> None:
    go_on, bus = threading.Event(), memory_bus(partitions=1)

    class Slow(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            self.asked.append("begun")
            assert go_on.wait(SOON)
            yield from super().execute(command)

    slow = Slow()
    bus.send([task_message(savepoint_request(n)) for n in range(3)])
    loop = ExecutorLoop(slow, bus, threads=2)
    step_until(loop, "the first command", lambda: bool(slow.asked))
    loop._subscription.expel()  # type: ignore[attr-defined]
    loop.step(0)
    go_on.set()

    assert loop.close(SOON)
    assert slow.asked == ["begun", str(savepoint_request(0).instant)]


@pytest.mark.parametrize("how", ["expel", "close"])
def test_a_lost_partitions_waiting_command_is_not_tried_again(how: str) -> None:
    bus, executor = memory_bus(partitions=1), StorageAway()
    bus.send([task_message(savepoint_request(0, BROKEN[0]))])
    often = RetryPolicy(attempts=10**6, first=0.05, longest=0.05)
    loop = ExecutorLoop(executor, bus, retries=often)
    step_until(loop, "a second attempt", lambda: len(executor.asked) > 1)
    getattr(loop._subscription, how)()
    loop.step(0)
    settled = len(executor.asked) + 1  # one may be under way
    time.sleep(0.3)

    assert len(executor.asked) <= settled
    assert loop.pending == 0
    loop._tasks.close(SOON)


class HangingFirst(Recorder):
    """Some tables' first attempts never end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: set[str] = set()
        self.go_on = threading.Event()

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        if command.table != HEALTHY:
            self.begun.add(command.table)
            assert self.go_on.wait(60)
        yield from super().execute(command)


@pytest.mark.parametrize("hanging", [3, 4, 15], ids=lambda n: f"{n} of 4 threads")
def test_first_attempts_that_hang_leave_a_thread_to_the_healthy_tables(
    hanging: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.runtime.executor.keyed_executor.LONG_SECONDS", 0.02)
    bus, executor = memory_bus(), HangingFirst()
    bus.send([task_message(savepoint_request(0, f"lake.sales.hangs_{n}")) for n in range(hanging)])
    loop = ExecutorLoop(executor, bus, threads=4)
    step_until(loop, "the hanging attempts", lambda: len(executor.begun) == hanging)
    bus.send([task_message(savepoint_request(n, HEALTHY)) for n in range(5)])
    try:
        run_until_done(loop, bus, 5)
        assert done(bus) == [HEALTHY] * 5
    finally:
        executor.go_on.set()
        loop.close()


def test_the_last_thread_of_all_is_kept_for_first_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.runtime.executor.keyed_executor.LONG_SECONDS", 0.0)
    bus, executor = memory_bus(), HangingStorage()
    bus.send([task_message(savepoint_request(0, table)) for table in BROKEN])
    quick = RetryPolicy(attempts=60, first=0.001, longest=0.001)
    loop = ExecutorLoop(executor, bus, threads=1, retries=quick)

    def three_hang() -> bool:
        return sum(attempt > 1 for attempt in executor.attempts.values()) == 3

    step_until(loop, "attempts that hang", three_hang)
    for _ in range(20):
        loop.step(0.001)
    assert three_hang()
    bus.send([task_message(savepoint_request(n, HEALTHY)) for n in range(5)])
    try:
        run_until_done(loop, bus, 5)
    finally:
        executor.go_on.set()
        loop.close()


def test_however_many_tasks_hang_the_number_of_threads_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate.runtime.executor.keyed_executor.LONG_SECONDS", 0.0)
    bus, executor = memory_bus(), HangingFirst()
    bus.send([task_message(savepoint_request(0, f"lake.sales.hangs_{n}")) for n in range(20)])
    loop = ExecutorLoop(executor, bus, threads=2)
    step_until(loop, "the hanging attempts", lambda: len(executor.begun) == 8)
    for _ in range(20):
        loop.step(0.001)
    assert (len(executor.begun), len(loop._tasks._threads)) == (8, 8)

    executor.go_on.set()
    work_off(loop)
    assert len(done(bus)) == 20
    loop.close()


def test_quick_tasks_use_no_more_threads_than_are_set() -> None:
    at_once, most, guard = Counter[str](), [0], threading.Lock()

    class Counting(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            with guard:
                at_once["now"] += 1
                most[0] = max(most[0], at_once["now"])
            time.sleep(0.001)
            with guard:
                at_once["now"] -= 1
            yield from super().execute(command)

    bus = memory_bus()
    bus.send([task_message(savepoint_request(n, f"lake.sales.t{n % 50}")) for n in range(200)])
    work_off(loop := ExecutorLoop(Counting(), bus, threads=3))

    assert (most[0], len(loop._tasks._threads)) == (3, 3)
    loop.close()


def test_tables_whose_commands_arrive_at_once_both_start_where_one_thread_is_idle() -> None:
    met = threading.Barrier(2, timeout=2 * SOON)

    def run(task: str) -> None:
        if task != "first":
            met.wait()

    executor = KeyedExecutor[str](4, run)
    executor.put("one", "first")
    wait_for("an idle thread", lambda: executor._idle == 1)
    with executor._changed:  # it can't wake up in between
        executor.put("two", "second")
        executor.put("three", "third")

    wait_for("both to run", lambda: not executor._queues, SOON)
    assert not met.broken
    assert executor.close(SOON)
