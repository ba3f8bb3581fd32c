"""Of a table's many commands only the next ones are in memory; the others are read again."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pytest

from support.backlogs import FEW, HEALTHY, HOT, Gated, in_memory, step_until
from support.memory_bus import MemoryBus
from support.samples import (
    Recorder,
    events_on,
    memory_bus,
    message,
    savepoint_request,
    work_off,
)
from tidegate.errors import OffsetGapError, TransientError
from tidegate.events import Command, Outcome
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.backlog import BacklogLimits
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import RetryPolicy
from tidegate.tables.task_numbers import NO_CLAIM, Unclaimed

OUTCOMES = "tidegate.outcomes"
GROUP = "tidegate.recorder"
ONLY = Partition("tidegate.commands", 0)


class CountedReads(MemoryBus):
    """Counts what is read again, and may have no answer for a while."""

    def __init__(self) -> None:
        super().__init__({log.topic for log in memory_bus()._logs}, partitions=1)
        self.reads: list[int] = []
        self.faults: list[Exception] = []
        self.deleted: set[int] = set()

    def read(self, spans: Mapping[Partition, range]) -> list[Record]:
        if ONLY not in spans:
            return super().read(spans)
        if self.faults:
            raise self.faults.pop(0)
        records = [record for record in super().read(spans) if record.offset not in self.deleted]
        self.reads.append(len(records))
        return records


def requests(count: int, table: str = HOT) -> list[str]:
    return [savepoint_request(n, table).event_id for n in range(count)]


def outcomes(bus: MemoryBus, table: str) -> list[str | None]:
    return [event.caused_by for event in events_on(bus, OUTCOMES) if event.table == table]


def test_a_table_with_five_thousand_unfinished_commands_delays_no_other_of_its_partition() -> None:
    bus, executor = CountedReads(), Gated()
    bus.send([message(savepoint_request(n, HOT)) for n in range(5000)])
    bus.send([message(savepoint_request(n, HEALTHY)) for n in range(300)])
    loop = ExecutorLoop(executor, bus, threads=2)
    step_until("the healthy table", loop, lambda: len(bus.records(OUTCOMES)) == 300)
    assert outcomes(bus, HOT) == []
    assert loop.pending == 5000
    assert in_memory(loop) < 300
    assert bus.committed[GROUP] == {}

    executor.go_on.set()
    work_off(loop)
    assert outcomes(bus, HOT) == requests(5000)
    assert outcomes(bus, HEALTHY) == requests(300, HEALTHY)
    assert bus.committed[GROUP] == {ONLY: 5300}
    loop.close()


def test_tables_that_are_stuck_leave_room_for_others_however_many_they_are() -> None:
    stuck = [f"lake.sales.stuck_{n}" for n in range(40)]
    go_on, bus = threading.Event(), CountedReads()

    class Stuck(Recorder):
        def execute(
            self,
            command: Command,
            claim: Unclaimed = NO_CLAIM,  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            if command.table != HEALTHY and not go_on.is_set():
                raise TransientError("the storage does not answer")
            yield from super().execute(command)

    bus.send([message(savepoint_request(n, table)) for table in stuck for n in range(80)])
    bus.send([message(savepoint_request(n, HEALTHY)) for n in range(20)])
    loop = ExecutorLoop(Stuck(), bus, threads=2)
    step_until("the healthy table", loop, lambda: len(bus.records(OUTCOMES)) == 20)

    assert loop.pending == 3200
    assert in_memory(loop) <= BacklogLimits().commands + len(stuck)
    loop.close()
    go_on.set()
    work_off(ExecutorLoop(Stuck(), bus, threads=8))
    done = defaultdict[str, list[str | None]](list)
    for event in events_on(bus, OUTCOMES):
        done[event.table].append(event.caused_by)
    assert [done[table] for table in stuck] == [requests(80, table) for table in stuck]


def test_commands_are_read_again_only_as_their_turn_comes() -> None:
    bus = CountedReads()
    bus.send([message(savepoint_request(n, HOT)) for n in range(1000)])
    work_off(loop := ExecutorLoop(Recorder(), bus, threads=2))

    assert outcomes(bus, HOT) == requests(1000)
    assert sum(bus.reads) < 1000  # none twice, and the first ones never
    loop.close()


def test_a_command_that_was_written_twice_is_carried_out_once_also_where_it_was_read_again() -> (
    None
):
    class Once(Recorder):
        checks_past_outcomes = True

        def is_answered(self, command: Command, outcomes: Sequence[Outcome]) -> bool:
            return any(outcome.caused_by == command.event_id for outcome in outcomes)

    bus, once = CountedReads(), Once()
    few = BacklogLimits(commands=40)
    bus.send([message(savepoint_request(n % 30, HOT)) for n in range(60)])
    work_off(loop := ExecutorLoop(once, bus, backlog=few))

    assert bus.reads
    assert once.asked == [str(savepoint_request(n).instant) for n in range(30)]
    assert bus.committed[GROUP] == {ONLY: 60}
    loop.close()


def with_a_table_that_waits() -> tuple[CountedReads, Gated, ExecutorLoop]:
    bus, executor = CountedReads(), Gated()
    bus.send([message(savepoint_request(n, HOT)) for n in range(50)])
    loop = ExecutorLoop(executor, bus, threads=2, backlog=FEW)
    step_until("all are read", loop, lambda: loop.pending == 50)
    return bus, executor, loop


def test_a_broker_that_is_away_is_asked_again_for_what_was_not_kept() -> None:
    bus, executor, loop = with_a_table_that_waits()
    bus.faults = [TransientError("no broker") for _ in range(20)]  # more than the retries
    loop._reader._retries = RetryPolicy(attempts=3, first=0.001, longest=0.002)
    executor.go_on.set()
    work_off(loop)

    assert (bus.faults, outcomes(bus, HOT)) == ([], requests(50))
    loop.close()


def test_commands_that_the_topic_no_longer_has_stop_the_service_and_are_named() -> None:
    bus, executor, loop = with_a_table_that_waits()
    bus.deleted = set(range(7, 15))
    executor.go_on.set()
    with pytest.raises(OffsetGapError) as caught:
        work_off(loop)
    loop.close()

    shown = str(caught.value)
    assert shown.startswith("recorder: tidegate.commands[0] no longer has the commands at 7")
    assert f", of {HOT}. They were waiting and were not executed" in shown
    assert "tidegate replay group recorder --to-earliest --execute" in shown
    assert outcomes(bus, HOT) == requests(50)[: len(outcomes(bus, HOT))]
    assert bus.committed[GROUP][ONLY] <= 7


def test_what_was_not_kept_is_read_once_more_when_its_partition_comes_back() -> None:
    bus, executor, loop = with_a_table_that_waits()
    bus._rebalance(GROUP)
    loop.step(0)
    assert loop.pending == 50
    executor.go_on.set()
    work_off(loop)

    assert outcomes(bus, HOT) == requests(50)
    assert bus.committed[GROUP] == {ONLY: 50}
    loop.close()


def test_what_was_not_kept_is_left_to_the_next_owner() -> None:
    bus, executor, loop = with_a_table_that_waits()
    loop.lost([ONLY])
    executor.go_on.set()
    for _ in range(20):
        loop.step(0.001)
    assert (loop.pending, bus.reads) == (0, [])
    loop._subscription.expel()  # type: ignore[attr-defined]
    successor = Recorder()
    work_off(after := ExecutorLoop(successor, bus, backlog=FEW))

    assert successor.asked == [str(savepoint_request(n).instant) for n in range(50)]
    for service in (loop, after):
        service.close()


def test_commands_that_are_read_while_their_partition_goes_and_comes_run_once_and_in_order() -> (
    None
):
    bus, executor, loop = with_a_table_that_waits()
    reading, go_on = threading.Event(), threading.Event()
    read = bus.read

    def slow_read(spans: Mapping[Partition, range]) -> list[Record]:
        if ONLY in spans:
            reading.set()
            assert go_on.wait(60)
        return read(spans)

    bus.read = slow_read  # type: ignore[method-assign]
    executor.go_on.set()
    step_until("a read", loop, reading.is_set)
    loop.lost([ONLY])
    while loop._running:
        time.sleep(0.001)
    begun = len(executor.asked)
    loop.assigned({ONLY: 0})
    loop._subscription._positions[ONLY] = 0  # type: ignore[attr-defined]
    go_on.set()
    work_off(loop)

    assert executor.asked[begun:] == [str(savepoint_request(n).instant) for n in range(50)]
    assert bus.committed[GROUP] == {ONLY: 50}
    loop.close()
