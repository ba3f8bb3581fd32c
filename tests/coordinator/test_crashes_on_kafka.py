"""A coordinator that dies between changelog and messages, or within a batch, on a broker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from support.samples import EveryThird, commit, counted_of, message
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.rows.position import POSITION_KEY
from tidegate.coordinator.rows.records import row_key
from tidegate.events.topics import CHANGELOG
from tidegate.events.wire import Wire
from tidegate.ops.topics import create_topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings

pytestmark = pytest.mark.kafka
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


class Killed(BaseException):
    """A SIGKILL: nothing after it runs."""


class DyingBus(KafkaBus):
    """Dies right before it publishes an outcome."""

    def send(self, messages: Sequence[Message]) -> None:
        if any(message.topic.endswith(".outcomes") for message in messages):
            raise Killed
        super().send(messages)


@pytest.fixture
def prefix(bootstrap_servers: str, topic_prefix: str) -> str:
    connection = {"bootstrap.servers": bootstrap_servers}
    create_topics(connection, TopicSettings(prefix=topic_prefix, partitions=1))
    return topic_prefix


def causes(bus: KafkaBus, prefix: str) -> list[str | None]:
    records = bus.log(Partition(f"{prefix}.outcomes", 0))
    return [Wire().deserialize(record.key, record.value).caused_by for record in records]


def test_what_was_remembered_and_not_published_is_published_by_the_successor(
    bootstrap_servers: str, prefix: str
) -> None:
    config = {"bootstrap.servers": bootstrap_servers}
    bus = KafkaBus(config, QUICK)
    bus.send([message(commit(number), prefix) for number in range(3)])
    dying = CoordinatorLoop(EveryThird(), DyingBus(config, QUICK), prefix)
    with pytest.raises(Killed):
        wait_for("its death", lambda: dying.step(0.2) and False)
    changelog = Partition(CHANGELOG.name(prefix), 0)
    wait_for(  # a transaction's end reaches its partition shortly after the commit
        "what was remembered first",
        lambda: row_key("", "outbox", 1) in [record.key for record in bus.log(changelog)],
    )
    assert causes(bus, prefix) == []
    dying.close()

    successor = CoordinatorLoop(EveryThird(), bus, prefix)
    wait_for("the outcome", lambda: successor.step(0.2) or causes(bus, prefix))
    for _ in range(5):
        successor.step(0.1)
    store = successor._owned[0].store
    assert counted_of(store) == 0, "the events were decided once"
    successor.close()
    assert causes(bus, prefix) == [commit(2).event_id]
    bus.close()


def test_half_a_batch_does_not_count(bootstrap_servers: str, prefix: str) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers}, QUICK)
    topic = CHANGELOG.name(prefix)
    bus.send([message(commit(0), prefix)])
    first = CoordinatorLoop(EveryThird(), bus, prefix)
    wait_for("the first event", lambda: first.step(0.2))
    first.close()
    log = bus.changelog(topic)
    list(log.acquire([0]))
    orders, returns = (row_key(f"lake.sales.{name}", "counted") for name in ("orders", "returns"))
    log.write({0: [(orders, b"[2]"), (returns, b"[1]")]})  # no end mark behind it
    log.close()

    second = CoordinatorLoop(EveryThird(), bus, prefix)
    bus.send([message(commit(1), prefix)])
    wait_for("the second event", lambda: second.step(0.2))
    store = second._owned[0].store
    assert (counted_of(store), counted_of(store, "lake.sales.returns")) == (2, 0)
    second.close()
    # what a transaction wrote can be read a few milliseconds after its commit
    log_of = partial(bus.log, Partition(topic, 0))
    wait_for("the repair", lambda: (returns, None) in {(it.key, it.value) for it in log_of()}, 30)
    records = [(record.key, record.value) for record in log_of()]
    last = {key: value for key, value in records if not (key or b"").startswith(b"\x00owner")}
    assert (last[orders], last[returns]) == (b"[2]", None), "written again with its former value"
    assert records[-1][0] == POSITION_KEY
    bus.close()
