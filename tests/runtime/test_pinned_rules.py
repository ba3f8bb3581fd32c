"""Rules of the loops that were broken by hand once without any test going red."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from support.memory_bus import MemoryBus, MemoryChangelog, MemorySubscription
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    counted_of,
    events_on,
    memory_bus,
    message,
    savepoint_request,
    task_message,
)
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import DeliveryError, StopService
from tidegate.events.topics import ALL_TOPICS
from tidegate.publisher import Message
from tidegate.runtime.bus import (
    NO_METADATA,
    ChangelogRecord,
    CommitMetadata,
    Offsets,
    Partition,
    Record,
)
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.retry import RetryPolicy

TABLE, DEAD = "lake.sales.orders", "tidegate.dead-letters"
CHANGELOG = "tidegate.coordinator.changelog"
TOPIC_NAMES = [topic.name() for topic in ALL_TOPICS]
ONCE = RetryPolicy(1, 0.001, 0.001)


class OvertakenBus(MemoryBus):
    """Before a changelog is acquired its owner writes once more: until then it is not fenced."""

    last_act: Callable[[], object] | None = None

    def changelog(self, topic: str) -> MemoryChangelog:
        bus = self

        class Overtaken(MemoryChangelog):
            def acquire(
                self, numbers: Collection[int], kept: Collection[int] = ()
            ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
                act, bus.last_act = bus.last_act, None
                if act:
                    act()
                return super().acquire(numbers, kept)

        return Overtaken(self, topic)


def test_rule_4_a_changelog_is_read_after_its_earlier_owner_is_fenced() -> None:
    bus = OvertakenBus(TOPIC_NAMES, partitions=1)
    bus.send([message(commit(0))])
    first = CoordinatorLoop(EveryThird(), bus)
    first.step(0)
    bus.send([message(commit(1))])
    bus.last_act = lambda: first.step(0)  # its last write, at the last moment
    second = CoordinatorLoop(EveryThird(), bus)
    bus._members["tidegate.coordinator"] = []  # the first has not noticed that it was expelled
    second.assigned({Partition("tidegate.commits", 0): 1, Partition("tidegate.locks", 0): 0})

    assert counted_of(second._owned[0].store, TABLE) == 2


class NoDeadLetters(MemoryBus):
    """The broker is away whenever a dead letter is written."""

    def send(self, messages: Sequence[Message]) -> None:
        if any(sent.topic == DEAD for sent in messages):
            raise DeliveryError("the broker is away")
        super().send(messages)


def test_rule_6_a_decider_acknowledges_no_message_whose_dead_letter_was_not_written() -> None:
    bus = NoDeadLetters(TOPIC_NAMES, partitions=1)
    bus.send([Message("tidegate.commits", b"k", b"junk"), message(commit(0))])
    loop = CoordinatorLoop(EveryThird(), bus, retries=ONCE)

    with pytest.raises(DeliveryError):
        loop.step(0)
    loop.close()
    assert bus.committed["tidegate.coordinator"] == {}
    assert bus.records(CHANGELOG) == []


def test_rule_6_an_executor_acknowledges_no_command_whose_dead_letter_was_not_written() -> None:
    bus = NoDeadLetters(TOPIC_NAMES, partitions=1)
    bus.send([task_message(savepoint_request(0)), task_message(savepoint_request(1))])
    loop = ExecutorLoop(Recorder(faults=[ValueError("a bug")]), bus, retries=ONCE)

    with pytest.raises(StopService, match="a dead letter could not be written"):
        wait_for("the fault", lambda: loop.step(0.01) > 9)
    loop.close()
    assert bus.committed["tidegate.recorder"].get(Partition("tidegate.tasks", 0), 0) == 0


def test_rule_3_a_dead_letter_that_is_written_again_has_the_same_id() -> None:
    record = Record(Partition("tidegate.commits", 0), 7, b"k", b"v", (), 1_000)
    one, again = (
        dict(dead_letter(record, "gate", ValueError("junk"), DEAD).headers) for _ in range(2)
    )
    other = dict(dead_letter(record._replace(offset=8), "gate", ValueError("junk"), DEAD).headers)

    assert one == again
    assert [name for name in one if one[name] != other[name]], "another message has another id"


class LateCommits(MemorySubscription):
    """An asynchronous commit does not arrive: the member is gone before."""

    def commit(
        self, at: Offsets, metadata: CommitMetadata = NO_METADATA, *, wait: bool = False
    ) -> None:
        if wait:
            super().commit(at, metadata, wait=wait)


def test_what_a_decider_began_is_acknowledged_before_its_partition_is_given_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("support.memory_bus.MemorySubscription", LateCommits)
    bus = memory_bus(partitions=1)
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    bus.send([message(commit(0))])
    loop._apply(bus.records("tidegate.commits"))  # as in the middle of a step
    loop.revoked([Partition("tidegate.commits", 0)])

    assert bus.committed["tidegate.coordinator"] == {Partition("tidegate.commits", 0): 1}
    assert events_on(bus, "tidegate.tasks") == []
