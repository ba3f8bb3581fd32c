"""An executor's loop: order, retries, dead letters, and nothing acknowledged too early."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from support.memory_bus import MemoryBus, MemorySubscription
from support.samples import (
    Recorder,
    commit,
    events_on,
    memory_bus,
    message,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from support.waiting import wait_for
from tidegate.errors import (
    DeadLetterFlood,
    DeliveryError,
    MessageTooLargeError,
    PermanentError,
    StopService,
    TransientError,
)
from tidegate.events import Command, Outcome, SavepointCreated, TaskEnd, TaskEnded
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import NO_METADATA, Partition, RebalanceListener, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit
from tidegate.runtime.retry import TABLE_RETRIES, RetryPolicy
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

OUTCOMES = "tidegate.outcomes"
DEAD = "tidegate.dead-letters"
QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.002)


def committed(bus: MemoryBus) -> int:
    return sum(bus.committed["tidegate.recorder"].values())


def test_every_command_has_its_outcome_and_is_acknowledged() -> None:
    bus, recorder = memory_bus(), Recorder()
    bus.send([task_message(savepoint_request(n)) for n in range(5)])
    work_off(ExecutorLoop(recorder, bus))

    expected = [savepoint_request(n).event_id for n in range(5)]
    assert [outcome.caused_by for outcome in outcomes_on(bus)] == expected
    assert committed(bus) == 5


def test_commands_of_one_table_run_in_order_and_of_different_tables_side_by_side() -> None:
    meet = threading.Barrier(3, timeout=60)

    class Meeting(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            if str(command.event_id) in firsts:
                meet.wait()  # passes only if the firsts of three tables run at the same time
            yield from super().execute(command)

    tables = [f"lake.sales.t{n}" for n in range(3)]
    firsts = {savepoint_request(0, table).event_id for table in tables}
    bus, meeting = memory_bus(partitions=1), Meeting()
    bus.send([task_message(savepoint_request(n, table)) for table in tables for n in range(4)])
    work_off(ExecutorLoop(meeting, bus))

    for table in tables:
        done = [e.caused_by for e in outcomes_on(bus) if e.table == table]
        assert done == [savepoint_request(n, table).event_id for n in range(4)]


def test_a_transient_fault_is_tried_again_and_leaves_no_dead_letter() -> None:
    bus = memory_bus()
    recorder = Recorder(faults=[TransientError("storage is slow"), OSError("disk is away")])
    bus.send([task_message(savepoint_request(0))])
    work_off(ExecutorLoop(recorder, bus, retries=QUICK))

    assert len(recorder.asked) == 3
    assert len(outcomes_on(bus)) == 1
    assert bus.records(DEAD) == []


@pytest.mark.parametrize(
    ("faults", "attempts"),
    [
        pytest.param([PermanentError("can never work")], 1, id="a permanent fault at once"),
        pytest.param([ValueError("a bug")], 1, id="an unknown fault at once"),
        pytest.param([TransientError("down")] * 3, 3, id="a transient fault after its limit"),
    ],
)
def test_a_command_that_cannot_work_is_set_aside_and_the_next_goes_on(
    faults: list[Exception], attempts: int
) -> None:
    bus, recorder = memory_bus(), Recorder(faults=faults)
    bus.send([task_message(savepoint_request(0)), task_message(savepoint_request(1))])
    work_off(ExecutorLoop(recorder, bus, retries=QUICK))

    assert len(recorder.asked) == attempts + 1
    (dead_letter,) = bus.records(DEAD)
    assert dead_letter.value == bus.records("tidegate.tasks")[0].value
    assert [e.caused_by for e in outcomes_on(bus)] == [savepoint_request(1).event_id]
    assert committed(bus) == 2


def test_a_repeat_of_a_task_that_was_given_up_meanwhile_is_not_carried_out() -> None:
    """The coordinator repeats it hourly; by then it is published that it was given up."""
    bus, recorder = memory_bus(), Recorder(faults=[TransientError("down")] * 3)
    task = task_message(savepoint_request(0))
    bus.send([task, task])
    work_off(ExecutorLoop(recorder, bus, retries=QUICK))

    assert len(recorder.asked) == 3
    assert len(bus.records(DEAD)) == 1
    [end] = [event for event in events_on(bus, OUTCOMES) if isinstance(event, TaskEnded)]
    assert end.end is TaskEnd.DEAD_LETTERED
    assert committed(bus) == 2


def test_a_poison_message_and_a_stray_event_are_set_aside() -> None:
    bus = memory_bus()
    stray = message(commit(0))
    bus.send([Message("tidegate.tasks", b"k", b"poison")])
    bus.send([Message("tidegate.tasks", stray.key, stray.value)])
    bus.send([task_message(savepoint_request(0))])
    work_off(ExecutorLoop(Recorder(), bus))

    assert len(bus.records(DEAD)) == 2
    assert len(outcomes_on(bus)) == 1


def test_nothing_is_acknowledged_before_its_outcome_is_on_the_broker() -> None:
    class Deaf(MemoryBus):
        def send(self, messages: Sequence[Message]) -> None:
            if any(sent.topic == OUTCOMES for sent in messages):
                raise DeliveryError("no broker")
            super().send(messages)

    plain = memory_bus(partitions=1)
    bus = Deaf({log.topic for log in plain._logs}, partitions=1)
    bus.send([task_message(savepoint_request(0))])
    endless = RetryPolicy(attempts=10**6, first=0.001, longest=0.001)
    loop = ExecutorLoop(Recorder(), bus, retries=endless)
    try:
        for _ in range(50):
            loop.step(0.005)
        assert committed(bus) == 0
    finally:
        ended = loop.close(deadline=10)

    assert ended
    assert committed(bus) == 0
    assert bus.records(DEAD) == []


def test_a_command_whose_outcome_is_too_large_is_dead_lettered_and_does_not_loop() -> None:
    class SmallTopic(MemoryBus):
        def send(self, messages: Sequence[Message]) -> None:
            kinds = [
                Wire().deserialize(sent.key, sent.value)
                for sent in messages
                if sent.topic == OUTCOMES
            ]
            if any(isinstance(event, SavepointCreated) for event in kinds):
                raise MessageTooLargeError("tidegate.outcomes takes no message of 2 MB")
            super().send(messages)

    bus, recorder = SmallTopic({log.topic for log in memory_bus()._logs}), Recorder()
    bus.send([task_message(savepoint_request(0))])
    work_off(ExecutorLoop(recorder, bus, retries=QUICK))

    assert len(recorder.asked) == 1
    [dead_letter] = bus.records(DEAD)
    assert b"2 MB" in (dict(dead_letter.headers)["x-exception-message"] or b"")
    [end] = events_on(bus, OUTCOMES)  # the next task of the table may be issued
    assert isinstance(end, TaskEnded)
    assert end.end is TaskEnd.DEAD_LETTERED
    assert committed(bus) == 1


def test_a_command_that_still_runs_holds_back_the_offset_of_those_after_it() -> None:
    go_on = threading.Event()

    class Slow(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            if command.table == "lake.sales.slow":
                assert go_on.wait(60)
            yield from super().execute(command)

    bus = memory_bus(partitions=1)
    bus.send(
        [task_message(savepoint_request(0, "lake.sales.slow")), task_message(savepoint_request(0))]
    )
    loop = ExecutorLoop(Slow(), bus)
    while not outcomes_on(bus):
        loop.step(0.01)
    loop.step(0.01)
    assert committed(bus) == 0

    go_on.set()
    work_off(loop)
    assert committed(bus) == 2


def test_a_backlog_pauses_the_partition_and_all_is_done_in_the_end() -> None:
    go_on = threading.Event()

    class Slow(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            assert go_on.wait(60)
            yield from super().execute(command)

    bus, slow = memory_bus(partitions=1), Slow()
    bus.send([task_message(savepoint_request(n)) for n in range(50)])
    loop = ExecutorLoop(slow, bus, max_tasks=5)
    taken = sum(loop.step(0) for _ in range(10))
    assert taken == 5

    go_on.set()
    work_off(loop)
    assert len(slow.asked) == 50
    assert committed(bus) == 50


def test_a_thread_that_dies_stops_the_service() -> None:
    class Dying(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            raise SystemExit(command.event_id)
            yield  # it is a generator all the same

    bus = memory_bus()
    bus.send([task_message(savepoint_request(0))])
    loop = ExecutorLoop(Dying(), bus)
    with pytest.raises(StopService, match="SystemExit"):
        work_off(loop)
    loop.close()
    assert committed(bus) == 0


def test_storage_may_be_away_for_an_hour_before_table_work_is_given_up() -> None:
    waits = [
        min(TABLE_RETRIES.first * 2.0**n, TABLE_RETRIES.longest)
        for n in range(TABLE_RETRIES.attempts)
    ]

    assert sum(waits) / 2 > 3600  # with jitter, half of each on average


def test_partitions_taken_away_are_not_acknowledged_by_who_lost_them() -> None:
    go_on = threading.Event()

    class Slow(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            assert go_on.wait(60)
            yield from super().execute(command)

    bus = memory_bus(partitions=1)
    bus.send([task_message(savepoint_request(n)) for n in range(3)])
    slow = ExecutorLoop(Slow(), bus)
    slow.step(0.01)
    slow._subscription.expel()  # type: ignore[attr-defined]
    quick = ExecutorLoop(Recorder(), bus)
    work_off(quick)
    go_on.set()
    slow.step(0.1)

    shown = outcomes_on(bus)
    assert {event.event_id for event in shown} == {event.event_id for event in shown[:3]}
    assert slow._offsets == {}
    assert committed(bus) == 3


class LateCommits(MemoryBus):
    """Asynchronous commits reach the broker with the member's next poll, as on Kafka."""

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        watched: Sequence[str] = (),
    ) -> MemorySubscription:
        member = super().subscribe(group, topics, listener, watched=watched)
        commit, poll = member.commit, member.poll
        late: list[tuple[Mapping[Partition, int], Mapping[Partition, str]]] = []

        def commit_late(
            at: Mapping[Partition, int],
            metadata: Mapping[Partition, str] = NO_METADATA,
            *,
            wait: bool = False,
        ) -> None:
            late.append((at, metadata))
            if wait:
                deliver()

        def deliver() -> None:
            while late:
                commit(*late.pop(0))

        def poll_after_commits(limit: int, timeout: float) -> Sequence[Record]:
            records = poll(limit, timeout)  # a partition may be revoked in here: too late for it
            deliver()
            return records

        member.commit, member.poll = commit_late, poll_after_commits  # type: ignore[method-assign]
        return member


def test_what_is_done_is_acknowledged_before_a_partition_is_given_away() -> None:
    go_on = threading.Event()

    class Gated(Recorder):
        def execute(
            self,
            command: Command,
            claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
            grounds: object = (),  # noqa: ARG002 - the protocol's
        ) -> Iterator[Outcome]:
            assert go_on.wait(60)
            yield from super().execute(command)

    bus, second = LateCommits({log.topic for log in memory_bus()._logs}, 2), Recorder()
    bus.send([task_message(savepoint_request(n, f"lake.sales.t{n}")) for n in range(8)])
    first = ExecutorLoop(Gated(), bus)
    while first.pending < 8:
        first.step(0.01)
    go_on.set()
    wait_for("eight commands that are done and not committed", lambda: first._finished.qsize() == 8)
    joining = ExecutorLoop(second, bus)  # takes one of the two partitions
    for _ in range(3):
        first.step(0.01)
        joining.step(0.01)
    work_off(joining)

    assert second.asked == []


def test_bad_code_does_not_drain_the_commands_into_the_dead_letters() -> None:
    bus = memory_bus(partitions=1)
    recorder = Recorder(faults=[ValueError("a bug") for _ in range(300)])
    bus.send([task_message(savepoint_request(n, f"lake.a.t{n % 60}")) for n in range(300)])
    loop = ExecutorLoop(recorder, bus, threads=1)

    with pytest.raises(DeadLetterFlood):
        work_off(loop)
    assert len(bus.records(DEAD)) == 50
    assert committed(bus) <= 50


def flooded(bus: MemoryBus) -> None:
    """A service whose code is bad runs until it stops, and leaves its group."""
    faults: list[Exception] = [ValueError("a bug") for _ in range(300)]
    loop = ExecutorLoop(Recorder(faults=faults), bus, threads=1)
    with pytest.raises(DeadLetterFlood):
        work_off(loop)
    loop.close()


def test_no_number_of_restarts_drains_the_commands_into_the_dead_letters() -> None:
    bus = memory_bus(partitions=1)
    bus.send([task_message(savepoint_request(n, f"lake.a.t{n % 60}")) for n in range(300)])
    for _ in range(5):
        flooded(bus)

    assert len(bus.records(DEAD)) == 50
    assert committed(bus) == 50


def test_a_service_that_was_put_right_goes_on_where_the_flood_stopped_it() -> None:
    bus, right = memory_bus(partitions=1), Recorder()
    bus.send([task_message(savepoint_request(n, f"lake.a.t{n % 60}")) for n in range(300)])
    flooded(bus)
    work_off(ExecutorLoop(right, bus))

    assert len(right.asked) == 250
    assert (len(bus.records(DEAD)), committed(bus)) == (50, 300)


def test_a_flood_says_what_to_look_at_and_what_to_do_next() -> None:
    bus = memory_bus(partitions=1)
    bus.send([task_message(savepoint_request(n, f"lake.a.t{n}")) for n in range(3)])
    faults: list[Exception] = [ValueError("a bug"), ValueError("a bug")]
    loop = ExecutorLoop(
        Recorder(faults=faults), bus, threads=1, limit=DeadLetterLimit(window=4, max_failures=1)
    )

    with pytest.raises(DeadLetterFlood) as caught:
        work_off(loop)
    assert str(caught.value) == (
        "recorder failed on 2 of the last 2 valid messages of tidegate.tasks[0], so recorder"
        " stops and writes no further dead letters. Correct the code or the settings and start"
        " recorder again. The reasons: tidegate dead-letters list --service recorder"
    )
