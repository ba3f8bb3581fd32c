"""Commands that are not kept in memory, on a real broker: read again, or said to be gone."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from support.backlogs import FEW, HEALTHY, HOT, Gated, in_memory, step_until
from support.deployment import Deployment
from support.samples import savepoint_request
from tidegate.errors import OffsetGapError
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus

pytestmark = pytest.mark.kafka


def test_on_a_broker_a_table_with_five_thousand_unfinished_commands_delays_no_other(
    deployment: Deployment,
) -> None:
    bus, executor = KafkaBus(deployment.connection), Gated()
    publisher = deployment.publisher()
    publisher.publish(*(savepoint_request(n, HOT) for n in range(5000)))
    publisher.publish(*(savepoint_request(n, HEALTHY) for n in range(20)))
    loop = ExecutorLoop(executor, bus, deployment.prefix, threads=2)
    step_until("the healthy table", loop, lambda: len(executor.asked) == 20)
    assert loop.pending >= 5000
    assert in_memory(loop) < 300

    executor.go_on.set()
    for _ in range(2000):  # far fewer than all: commands that were not kept are among them
        loop.step(0.01)
        if len(executor.asked) > 700:
            break
    loop.close()
    bus.close()
    done = executor.asked[20:]
    assert len(done) > 600
    assert done == [str(savepoint_request(n).instant) for n in range(len(done))]


def test_on_a_broker_commands_that_retention_removed_meanwhile_are_named(
    deployment: Deployment,
) -> None:
    bus, executor = KafkaBus(deployment.connection), Gated()
    deployment.publisher().publish(*(savepoint_request(n, HOT) for n in range(50)))
    loop = ExecutorLoop(executor, bus, deployment.prefix, threads=2, backlog=FEW)
    step_until("all are read", loop, lambda: loop.pending == 50)
    topic = f"{deployment.prefix}.commands"
    admin = AdminClient(dict(deployment.connection))
    [removed] = admin.delete_records([TopicPartition(topic, 0, 20)]).values()
    removed.result(60)
    executor.go_on.set()

    with pytest.raises(OffsetGapError, match=r"no longer has the commands at \d"):
        step_until("the gap", loop, lambda: False)
    loop.close()
    bus.close()
    assert len(executor.asked) < 50
