"""The rule in memory: nothing of a topic that was created again is acknowledged."""

from __future__ import annotations

import pytest

from support.samples import (
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    savepoint_request,
    work_off,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import OffsetGapError
from tidegate.runtime.bus import Partition, TopicIdentity, require_same_topic
from tidegate.runtime.executor.loop import ExecutorLoop


def test_a_decider_stops_before_it_acknowledges_anything_of_the_new_topic() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    bus.recreate("tidegate.commits")
    bus.send([message(commit(number)) for number in range(3)])

    with pytest.raises(OffsetGapError, match="commits was deleted and created again"):
        loop.step(0)
    assert bus.committed["tidegate.coordinator"][Partition("tidegate.commits", 0)] == 1


def test_an_executor_stops_before_it_acknowledges_anything_of_the_new_topic() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(savepoint_request(0))])
    loop = ExecutorLoop(Recorder(), bus)
    while bus.committed["tidegate.recorder"].get(Partition("tidegate.commands", 0)) != 1:
        loop.step(0.01)
    bus.recreate("tidegate.commands")
    bus.send([message(savepoint_request(number)) for number in range(3)])

    with pytest.raises(OffsetGapError, match="commands was deleted and created again"):
        work_off(loop)
    assert bus.committed["tidegate.recorder"][Partition("tidegate.commands", 0)] == 1


def test_a_decider_stops_where_its_changelog_was_created_again() -> None:
    bus = memory_bus(partitions=1)
    bus.send([message(commit(0))])
    loop = CoordinatorLoop(EveryThird(), bus)
    loop.step(0)
    bus.recreate("tidegate.coordinator.changelog")
    bus.send([message(commit(1))])

    with pytest.raises(OffsetGapError, match="changelog was deleted and created again"):
        loop.step(0)


def test_a_topic_with_the_same_id_and_partitions_is_the_same() -> None:
    same = TopicIdentity("id", 6)

    require_same_topic("tidegate.cleaner", "tidegate.commands", same, same)
