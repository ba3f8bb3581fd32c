"""A topic is deleted and created again, or grows, while a service works on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from support.deployment import Deployment
from support.kafka import create_topic
from support.samples import EveryThird, Recorder, commit, savepoint_request, task_of
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import OffsetGapError, StopService
from tidegate.events import Event, TaskIssued
from tidegate.events.topics import CHANGELOG
from tidegate.runtime.bus import Bus
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka

Loop = CoordinatorLoop | ExecutorLoop
BEFORE, AFTER = 100, 160


def an_executor(bus: Bus, prefix: str) -> Loop:
    return ExecutorLoop(Recorder(), bus, prefix)


def a_decider(bus: Bus, prefix: str) -> Loop:
    return CoordinatorLoop(EveryThird(), bus, prefix)


def task(number: int) -> TaskIssued:
    return task_of(savepoint_request(number), number + 1)


@pytest.fixture
def deployment(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as deployment:
        yield deployment


@pytest.fixture
def bus(deployment: Deployment) -> Iterator[KafkaBus]:
    bus = KafkaBus(deployment.connection)
    yield bus
    bus.close()


def committed(deployment: Deployment, group: str, topic: str) -> int:
    """The group's offset; 0 where there is none: the broker deletes those of a deleted topic."""
    asking = Consumer({**deployment.connection, "group.id": group, "log_level": 0})
    [where] = asking.committed([TopicPartition(topic, 0)], timeout=60)
    asking.close()
    return max(0, where.offset)


def create_again(deployment: Deployment, topic: str) -> None:
    admin = AdminClient({**deployment.connection, "log_level": 0})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(60)
    wait_for("the end of the topic", lambda: topic not in admin.list_topics(timeout=60).topics)
    create_topic(deployment.servers, topic)


def step_until_it_stops(loop: Loop) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        loop.step(0.1)


@pytest.mark.parametrize(
    ("service", "topic", "event"),
    [
        pytest.param(an_executor, "tasks", task, id="an executor"),
        pytest.param(a_decider, "commits", commit, id="a decider"),
    ],
)
def test_nothing_of_a_topic_that_was_created_again_is_acknowledged(
    deployment: Deployment,
    bus: KafkaBus,
    service: Callable[[Bus, str], Loop],
    topic: str,
    event: Callable[[int], Event],
) -> None:
    name = Recorder.name if service is an_executor else "coordinator"
    full, group = f"{deployment.prefix}.{topic}", f"{deployment.prefix}.{name}"
    deployment.publisher().publish(*(event(n) for n in range(BEFORE)))
    loop = service(bus, deployment.prefix)

    def all_done() -> bool:
        loop.step(0.1)
        return committed(deployment, group, full) == BEFORE

    wait_for("the first events", all_done)
    create_again(deployment, full)
    with deployment.publisher() as anew:
        anew.publish(*(event(BEFORE + n) for n in range(AFTER)))

    stop = f"{full} was deleted and created again.* replay group {name} --to-earliest"
    with pytest.raises(OffsetGapError, match=stop):
        step_until_it_stops(loop)
    loop.close()
    assert committed(deployment, group, full) <= BEFORE


def test_a_changelog_that_was_created_again_stops_its_decider_now_and_at_its_next_start(
    deployment: Deployment, bus: KafkaBus
) -> None:
    topic = CHANGELOG.name(deployment.prefix)
    publisher = deployment.publisher()
    publisher.publish(commit(0))
    loop = a_decider(bus, deployment.prefix)
    wait_for("the first event", lambda: loop.step(0.1))
    create_again(deployment, topic)
    publisher.publish(commit(1))

    with pytest.raises(OffsetGapError, match="changelog was deleted and created again"):
        step_until_it_stops(loop)
    loop.close()
    with pytest.raises(OffsetGapError, match="changelog was deleted and created again"):
        step_until_it_stops(a_decider(bus, deployment.prefix))


def test_a_topic_that_grows_stops_a_service(deployment: Deployment, bus: KafkaBus) -> None:
    loop = an_executor(bus, deployment.prefix)
    topic = f"{deployment.prefix}.tasks"
    deployment.publisher().publish(task(0))
    wait_for("the first task", lambda: loop.step(0.1))
    admin = AdminClient({**deployment.connection, "log_level": 0})
    [grown] = admin.create_partitions([NewPartitions(topic, 2)]).values()
    grown.result(60)

    with pytest.raises(StopService, match=f"{topic} has 2 partitions, it had 1"):
        step_until_it_stops(loop)
    loop.close()
