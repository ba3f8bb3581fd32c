"""Invalid messages beyond a rate are recorded by offset, and none of them is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.memory_bus import MemoryBus, MemorySubscription
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    outcomes_on,
    savepoint_request,
    task_message,
)
from support.samples import work_off as work_off_commands
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.events.topics import TOPICS
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input import uncopied
from tidegate.runtime.input.dead_letters import OFFSETS_HEADER, counted
from tidegate.runtime.input.uncopied import OF_A_KEY, OF_A_PARTITION, Uncopied

DEAD, COMMITS, COMMANDS = "tidegate.dead-letters", "tidegate.commits", "tidegate.tasks"
WHERE = Partition(COMMITS, 0)


def record(offset: int, key: bytes = b"lake.a.b", size: int = 1) -> Record:
    return Record(WHERE, offset, key, bytes(size), (), 1000 + offset)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def copies(known: Uncopied, records: Sequence[Record]) -> int:
    return sum(known.may_copy(one) for one in records)


def test_of_one_key_some_messages_a_minute_are_copied_and_others_keys_are_not_affected() -> None:
    clock = Clock()
    known = Uncopied(clock)

    assert copies(known, [record(n) for n in range(1000)]) == OF_A_KEY
    assert copies(known, [record(n, b"lake.a.c") for n in range(3)]) == 3
    clock.now += uncopied.PERIOD_SECONDS
    assert copies(known, [record(n) for n in range(1000)]) == OF_A_KEY


def test_of_many_keys_together_some_messages_a_minute_are_copied() -> None:
    keys = [f"lake.a.t{number}".encode() for number in range(5000)]

    assert copies(Uncopied(), [record(n, key) for n, key in enumerate(keys)]) == OF_A_PARTITION


def test_large_messages_use_up_the_limit_sooner() -> None:
    records = [record(n, size=1_000_000) for n in range(100)]

    assert copies(Uncopied(), records) == 1


def test_offsets_that_come_in_any_order_are_recorded() -> None:
    known, again = Uncopied(), Uncopied()
    for offset in (7, 3, 12, 5):
        known.add(record(offset), "junk")
    again.restore(known.serialize())

    for either in (known, again):
        assert (either.first, either.last, either.count) == (3, 12, 4)
    assert again.serialize() == known.serialize()


@pytest.mark.parametrize(
    "text", ["", "5", "5:", ":5", "x:5-7:2", "5:7:1", "5:1-3", "5:1-" + "9" * 30 + ":1", "٣:٣-٣:٣"]
)
def test_what_another_tool_committed_counts_as_nothing(text: str) -> None:
    known = Uncopied()
    known.restore(text)

    assert known.count == 0
    assert not known.is_due


def counted_in(bus: MemoryBus) -> tuple[int, int, int]:
    """How many messages the dead letters stand for, and the first and last of their offsets."""
    count, offsets = 0, set[int]()
    for copy in bus.records(DEAD):
        headers = dict(copy.headers)
        count += counted(copy.headers)[1]
        spans = headers.get(OFFSETS_HEADER) or headers["x-original-offset"] or b""
        offsets |= set(map(int, spans.decode().split("-")))
    return count, min(offsets), max(offsets)


def kill(loop: CoordinatorLoop | ExecutorLoop) -> None:
    """As a SIGKILL: it writes and commits no more."""
    subscription = loop._subscription
    assert isinstance(subscription, MemorySubscription)
    subscription.expel()


def junk(topic: str, count: int) -> list[Message]:
    return [Message(topic, b"lake.a.b", b"junk", (), 0) for _ in range(count)]


def test_a_decider_that_stops_in_order_leaves_every_invalid_message_in_the_dead_letters(
    bus: MemoryBus,
) -> None:
    for number in range(3):
        bus.send([*junk(COMMITS, 300), message(commit(number))])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        pass
    loop.close()

    assert counted_in(bus) == (900, 0, 901)
    assert len(bus.records(DEAD)) == OF_A_KEY + 1
    assert len(outcomes_on(bus)) == 1


def test_an_executor_that_is_killed_leaves_them_to_its_successor() -> None:
    bus, recorder = memory_bus(partitions=1), Recorder()
    bus.send([*junk(COMMANDS, 300), task_message(savepoint_request(1))])
    killed = ExecutorLoop(recorder, bus)
    work_off_commands(killed)
    kill(killed)
    assert len(bus.records(DEAD)) == OF_A_KEY
    assert bus.committed["tidegate.recorder"][Partition(COMMANDS, 0)] == 301

    successor = ExecutorLoop(recorder, bus)
    work_off_commands(successor)
    successor.close()

    assert counted_in(bus) == (300, 0, 299)
    assert recorder.asked == [str(commit(1).instant)]


def test_what_was_recorded_is_written_after_a_minute_and_only_once(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncopied, "PERIOD_SECONDS", 0.2)
    bus.send(junk(COMMITS, 100))
    loop = CoordinatorLoop(EveryThird(), bus)
    while len(bus.records(DEAD)) <= OF_A_KEY:
        loop.step(0.01)
    loop.step(0)
    kill(loop)
    successor = CoordinatorLoop(EveryThird(), bus)
    successor.step(0)
    successor.close()

    assert counted_in(bus) == (100, 0, 99)


def test_every_input_topic_has_dead_letters_with_the_fault_in_them() -> None:
    bus = memory_bus(partitions=1)
    loop = CoordinatorLoop(EveryThird(), bus)
    for topic in TOPICS:
        bus.send([Message(topic.name(), None, None, (), 0)])
    while loop.step(0):
        pass
    loop.close()

    faults = {counted(copy.headers)[0] for copy in bus.records(DEAD) if copy.headers}
    assert faults == {"message"}
