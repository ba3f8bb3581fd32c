"""Invalid messages beyond a rate are recorded by offset, and none of them is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from support.memory_bus import MemoryBus, MemorySubscription
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    savepoint_request,
)
from support.samples import work_off as work_off_commands
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.events.topics import TOPICS
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input import uncopied
from tidegate.runtime.input.dead_letters import OFFSETS_HEADER, counted
from tidegate.runtime.input.uncopied import OF_A_KEY, OF_A_PARTITION, Uncopied, parse_ranges

DEAD, COMMITS, COMMANDS = "tidegate.dead-letters", "tidegate.commits", "tidegate.commands"
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


@pytest.mark.parametrize("seed", range(20))
def test_offsets_that_come_in_any_order_and_twice_are_each_recorded_once(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - an order, no secret
    offsets = [rng.randrange(200) for _ in range(150)]
    known, again = Uncopied(), Uncopied()
    for offset in offsets:
        known.add(record(offset), "junk")
    again.restore(known.serialize())

    for either in (known, again):
        found = either.offsets()
        assert found is not None
        assert [n for span in found.ranges for n in span] == sorted(set(offsets))
        assert found.count == len(set(offsets))
    assert again.serialize() == known.serialize()


@pytest.mark.parametrize(
    "text",
    ["", "5", "5:", ":5", "x:5", "5:7-3", "5:3,1", "5:1-3,3", "5:1,2", "5:" + "9" * 30, "٣:٣"],
)
def test_what_another_tool_committed_counts_as_nothing(text: str) -> None:
    known = Uncopied()
    known.restore(text)

    assert known.offsets() is None
    assert not known.is_due()


def offsets_of(bus: MemoryBus) -> list[int]:
    """The offsets that the dead letters name, one by one."""
    found: list[int] = []
    for copy in bus.records(DEAD):
        headers = dict(copy.headers)
        if OFFSETS_HEADER in headers:
            spans = parse_ranges((headers[OFFSETS_HEADER] or b"").decode())
            found += [offset for span in spans for offset in span]
        else:
            found.append(int(headers["x-original-offset"] or b""))
    return sorted(found)


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

    assert offsets_of(bus) == [n for n in range(903) if n not in (300, 601, 902)]
    assert len(bus.records(DEAD)) == OF_A_KEY + 1
    assert sum(counted(copy.headers)[1] for copy in bus.records(DEAD)) == 900
    assert len(bus.records(COMMANDS)) == 1


def test_an_executor_that_is_killed_leaves_them_to_its_successor() -> None:
    bus, recorder = memory_bus(partitions=1), Recorder()
    bus.send([*junk(COMMANDS, 300), message(savepoint_request(1))])
    killed = ExecutorLoop(recorder, bus)
    work_off_commands(killed)
    kill(killed)
    assert len(bus.records(DEAD)) == OF_A_KEY
    assert bus.committed["tidegate.recorder"][Partition(COMMANDS, 0)] == 301

    successor = ExecutorLoop(recorder, bus)
    work_off_commands(successor)
    successor.close()

    assert offsets_of(bus) == list(range(300))
    assert recorder.asked == [str(commit(1).instant)]


def test_what_was_recorded_is_written_after_a_minute_and_only_once(
    bus: MemoryBus,
    monkeypatch: pytest.MonkeyPatch,
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

    assert offsets_of(bus) == list(range(100))


def test_invalid_messages_between_valid_ones_are_written_before_their_offsets_become_too_long(
    bus: MemoryBus,
) -> None:
    for number in range(2000):
        bus.send([*junk(COMMITS, 1), message(commit(number))])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        longest = max(map(len, bus.commit_metadata["tidegate.coordinator"].values()))
        assert longest <= 2000
    loop.close()

    assert offsets_of(bus) == list(range(0, 4000, 2))
    assert len(bus.records(DEAD)) < 50


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
