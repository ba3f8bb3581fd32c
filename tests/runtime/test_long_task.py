"""Rule 5 on a real broker: a task longer than every time-out of the group costs no membership."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition

from support.deployment import Deployment
from support.samples import Recorder, savepoint_request, task_of
from support.waiting import wait_for
from tidegate.events import Command, Event, Outcome, TaskEnded
from tidegate.runtime.bus import Partition
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.subscription import KafkaSubscription
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# The longest that the group bears without a poll, and without a heartbeat, in ms.
SHORT = {"max.poll.interval.ms": 3000, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
LONGER_SECONDS = 7.0
LONG, OTHER = "lake.sales.long", "lake.sales.other"


class LongTask(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        if command.table == LONG:
            self.begun.set()
            self.may_end.wait(60)
        yield from super().execute(command)


class Watched(ExecutorLoop):
    """Writes down what the group tells it."""

    def __init__(self, task: LongTask, bus: KafkaBus, prefix: str) -> None:
        self.calls: list[str] = []
        super().__init__(task, bus, prefix, threads=2)

    def assigned(self, starts: Mapping[Partition, int]) -> None:
        self.calls.append("assigned")
        super().assigned(starts)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.calls.append("revoked")
        super().revoked(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.calls.append("lost")
        super().lost(partitions)

    @property
    def member(self) -> str | None:
        assert isinstance(self._subscription, KafkaSubscription)
        return self._subscription._consumer.memberid()


def committed(deployment: Deployment) -> int:
    group = f"{deployment.prefix}.{Recorder.name}"
    asking = Consumer({**deployment.connection, "group.id": group, "log_level": 0})
    [where] = asking.committed([TopicPartition(f"{deployment.prefix}.tasks", 0)], timeout=60)
    asking.close()
    return where.offset


def answers(deployment: Deployment) -> list[Event]:
    return [it for it in deployment.events("outcomes") if not isinstance(it, TaskEnded)]


def test_rule_5_a_long_task_costs_no_membership_and_holds_up_no_other_table(
    deployment: Deployment,
) -> None:
    bus = KafkaBus(deployment.connection, SHORT)
    task = LongTask()
    loop = Watched(task, bus, deployment.prefix)
    others = [savepoint_request(n, OTHER) for n in range(20)]
    requests = [savepoint_request(0, LONG), *others]
    prefix = deployment.prefix
    deployment.publisher().publish(*(task_of(it, n + 1, prefix) for n, it in enumerate(requests)))

    def others_are_done() -> bool:
        loop.step(0.1)
        return task.begun.is_set() and len(answers(deployment)) == len(others)

    wait_for("the other table's outcomes", others_are_done)
    member = loop.member
    deadline = time.monotonic() + LONGER_SECONDS
    while time.monotonic() < deadline:
        loop.step(0.1)
    done = [event.caused_by for event in answers(deployment)]
    assert done == [other.event_id for other in others]
    assert committed(deployment) == 0

    task.may_end.set()
    while loop.pending:
        loop.step(0.1)
    assert loop.calls == ["assigned"]
    assert loop.member == member
    loop.close()
    bus.close()

    assert answers(deployment)[-1].caused_by == savepoint_request(0, LONG).event_id
    assert committed(deployment) == 21
