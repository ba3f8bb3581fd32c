"""What a decider holds does not grow with its partitions: hundreds fit into 1,024 descriptors."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import pytest

from support.kafka import create_topic
from support.samples import EveryThird
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import ConfigError
from tidegate.events.topics import ALL_TOPICS
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka


def held_with(servers: str, prefix: str, partitions: int) -> tuple[int, int]:
    """The descriptors and threads of a decider that owns so many partitions."""
    names = [topic.name(prefix) for topic in ALL_TOPICS]
    for name in names:
        create_topic(servers, name, partitions)
    gc.collect()  # an earlier test's clients, of which the last reference was in a cycle
    before = descriptors(), native_threads()
    bus = KafkaBus({"bootstrap.servers": servers})
    for name in names:
        wait_for(name, partial(is_known, bus, name))
    loop = CoordinatorLoop(EveryThird(), bus, prefix)

    def owns_all() -> bool:
        loop.step(0.1)
        return len(list(loop._owned)) == partitions

    wait_for("all partitions", owns_all)
    held = descriptors() - before[0], native_threads() - before[1]
    loop.close()
    bus.close()
    return held


def is_known(bus: KafkaBus, topic: str) -> bool:
    try:
        return bool(bus.partitions(topic))
    except ConfigError:  # created, but this broker does not know it yet
        return False


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def native_threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
def test_descriptors_and_threads_do_not_grow_with_the_partitions(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    few = held_with(bootstrap_servers, f"{topic_prefix}.few", 2)
    many = held_with(bootstrap_servers, f"{topic_prefix}.many", 40)

    # a producer a partition took 8 descriptors and 3.6 threads each: 300 and 137 more
    assert many[0] <= few[0] + 60
    assert many[1] <= few[1] + 60
