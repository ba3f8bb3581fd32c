"""A command that its topic refuses stops nothing: its event is a dead letter, and the rest goes on.

It used to stop the service, and again at every start.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from support.memory_bus import MemoryBus
from support.samples import (
    NOON,
    EveryThird,
    commands_on,
    commit,
    counted_of,
    end_tasks,
    ended,
    message,
)
from support.waiting import wait_for
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.outgoing import ALWAYS_ACCEPTED_BYTES
from tidegate.coordinator.rows.records import MAX_RECORD_BYTES
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import Effects
from tidegate.errors import DeliveryError, MessageTooLargeError, StopService
from tidegate.events import CleaningReleased, Command, CommitCompleted, Event, TaskEnded, TaskIssued
from tidegate.events.topics import ALL_TOPICS, CHANGELOG
from tidegate.events.wire import Wire, command_of
from tidegate.ops.topics import create_topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.retry import RetryPolicy
from tidegate.service.settings import TopicSettings

COMMANDS, DEAD = "tidegate.tasks", "tidegate.dead-letters"
LIMIT = 2 * ALWAYS_ACCEPTED_BYTES
ONCE = RetryPolicy(1, 0.001, 0.001)


class Wordy(EveryThird):
    """Has a command with a snapshot as long as the commit says, on every third commit."""

    consumes = (*EveryThird.consumes, TaskEnded)
    row_types = EveryThird.row_types

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        effects = super().handle(event, rows, at)
        if effects.outcomes and isinstance(event, CommitCompleted):
            return Effects(commands=[wordy(event, int(event.operation or 0))])
        return effects


def wordy(event: CommitCompleted, length: int) -> Command:
    """A command of this length, which no compression makes smaller."""
    return CleaningReleased.about(
        event,
        kind="minor",
        directories=("delta_0000001_0000003",),
        min_write_id=1,
        max_write_id=3,
        valid_write_ids=random.Random(length).randbytes(length).decode("latin-1"),  # noqa: S311
        source="wordy",
        occurred_at=NOON,
    )


def asking(number: int, length: int) -> CommitCompleted:
    fields = commit(number).model_dump(exclude={"event_id"}) | {"operation": str(length)}
    return CommitCompleted.model_validate(fields)


class LimitedBus(MemoryBus):
    """Its commands have a limit."""

    limit = LIMIT

    def max_message_bytes(self, topic: str) -> int:
        return self.limit if topic == COMMANDS else super().max_message_bytes(topic)

    def send(self, messages: Sequence[Message]) -> None:
        for sent in messages:
            if sent.topic == COMMANDS and len(sent.value or b"") > self.limit:
                raise MessageTooLargeError("Broker: Message size too large")
            super().send([sent])


def limited_bus() -> LimitedBus:
    return LimitedBus([topic.name() for topic in ALL_TOPICS], partitions=1)


def work_off(bus: MemoryBus) -> None:
    loop = CoordinatorLoop(Wordy(), bus, retries=ONCE)
    end_tasks(bus, loop)
    loop.close()


def test_the_event_of_a_command_that_is_too_large_is_a_dead_letter_and_changes_no_state() -> None:
    bus = limited_bus()
    events = [asking(n, 2 * LIMIT if n == 2 else 10) for n in range(7)]
    bus.send([message(event) for event in events])
    work_off(bus)

    [dead_letter] = bus.records(DEAD)
    assert Wire().deserialize(dead_letter.key, dead_letter.value) == events[2]
    assert b"size too large" in (dict(dead_letter.headers)["x-exception-message"] or b"")
    # the one after it is the third that counts, so it has the command
    causes = [event.caused_by for event in commands_on(bus)]
    assert causes == [events[3].event_id, events[6].event_id]
    assert bus.committed["tidegate.coordinator"][Partition("tidegate.commits", 0)] == 7

    work_off(bus)  # the next start finds nothing to do
    assert len(commands_on(bus)) == 2


def test_a_redriven_event_is_decided_once_its_topic_takes_the_command() -> None:
    bus = limited_bus()
    bus.send([message(asking(n, 2 * LIMIT)) for n in range(3)])
    work_off(bus)
    bus.limit = 4 * LIMIT
    [dead_letter] = bus.records(DEAD)
    bus.send([Message("tidegate.commits", dead_letter.key, dead_letter.value)])
    work_off(bus)

    assert [event.caused_by for event in commands_on(bus)] == [asking(2, 2 * LIMIT).event_id]


def test_commands_keep_their_order_around_a_large_one() -> None:
    bus = limited_bus()
    large = ALWAYS_ACCEPTED_BYTES + 1
    bus.send([message(asking(n, large if n == 5 else 10)) for n in range(9)])
    work_off(bus)

    shown = [event.caused_by for event in commands_on(bus)]
    assert shown == [asking(n, large if n == 5 else 10).event_id for n in (2, 5, 8)]


def test_a_topic_that_refuses_even_small_commands_stops_the_service_and_says_what_to_do() -> None:
    bus = limited_bus()
    bus.limit = 10
    bus.send([message(asking(n, 100)) for n in range(3)])

    with pytest.raises(StopService, match=r"raise its max\.message\.bytes"):
        work_off(bus)
    assert bus.records(DEAD) == []
    assert bus.committed["tidegate.coordinator"] == {}


class Away(LimitedBus):
    """Takes no large command now; it is not too large."""

    def send(self, messages: Sequence[Message]) -> None:
        if any(len(sent.value or b"") > ALWAYS_ACCEPTED_BYTES for sent in messages):
            raise DeliveryError("the broker is away")
        super().send(messages)


def test_a_large_command_that_was_not_delivered_is_not_a_dead_letter() -> None:
    bus = Away([topic.name() for topic in ALL_TOPICS], partitions=1)
    bus.send([message(asking(n, ALWAYS_ACCEPTED_BYTES + 1)) for n in range(3)])

    with pytest.raises(DeliveryError):
        work_off(bus)
    assert bus.records(DEAD) == []
    assert bus.committed["tidegate.coordinator"] == {}


class Hoarder(EveryThird):
    """Stores a body as long as the commit says."""

    name: ClassVar[str] = "hoarder"
    row_types: ClassVar[Sequence[RowType]] = (
        *EveryThird.row_types,
        RowType("hoard", has_body=True),
    )

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        assert isinstance(event, CommitCompleted)
        assert at.tzinfo
        rows.put("counted", event.table, columns=(counted_of(rows, event.table) + 1,))
        if length := int(event.operation or 0):
            body = random.Random(length).randbytes(length - len("[]\n")).hex()  # noqa: S311
            rows.put("hoard", event.table, body=body)
        return Effects()


def test_a_changelog_accepts_the_largest_record_twice() -> None:
    assert (CHANGELOG.max_bytes or 0) >= 2 * MAX_RECORD_BYTES


def test_an_event_that_needs_a_record_above_the_limit_is_a_dead_letter() -> None:
    bus = limited_bus()
    lengths = (MAX_RECORD_BYTES // 2, 2 * MAX_RECORD_BYTES, 0)  # half of it when compressed
    bus.send([message(asking(n, length)) for n, length in enumerate(lengths)])
    loop = CoordinatorLoop(Hoarder(), bus, retries=ONCE)
    while loop.step(0):
        pass

    [dead_letter] = bus.records(DEAD)
    assert Wire().deserialize(dead_letter.key, dead_letter.value) == asking(1, 2 * MAX_RECORD_BYTES)
    assert counted_of(loop._owned[0].store) == 2
    sizes = [len(record.value or b"") for record in bus.records(CHANGELOG.name())]
    assert max(sizes) <= MAX_RECORD_BYTES


@pytest.fixture
def prefix(bootstrap_servers: str, topic_prefix: str) -> str:
    """A deployment whose tasks may have LIMIT bytes."""
    connection = {"bootstrap.servers": bootstrap_servers}
    create_topics(connection, TopicSettings(prefix=topic_prefix, partitions=1))
    limit = ConfigEntry(
        "max.message.bytes", str(LIMIT), incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ResourceType.TOPIC, f"{topic_prefix}.tasks", incremental_configs=[limit])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.incremental_alter_configs([topic]).values():
        future.result(60)
    return topic_prefix


@pytest.mark.kafka
def test_on_a_real_broker_too(bootstrap_servers: str, prefix: str) -> None:
    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    lengths = [10, 10, 2 * LIMIT, 10, 10, 10, 10]
    events = [asking(n, length) for n, length in enumerate(lengths)]
    bus.send([message(event, prefix) for event in events])
    loop, done = CoordinatorLoop(Wordy(), bus, prefix, retries=ONCE), [0]

    def all_taken() -> bool:
        done[0] += loop.step(0.2)
        return done[0] >= len(events)

    wait_for("the events", all_taken)
    [first] = tasks_of(bus, prefix)
    bus.send([message(ended(first), prefix)])
    wait_for("the second task", lambda: loop.step(0.2) or len(tasks_of(bus, prefix)) > 1)
    loop.close()
    [dead_letter] = bus.log(Partition(f"{prefix}.dead-letters", 0))
    commands = [command_of(task, Wire()) for task in tasks_of(bus, prefix)]
    bus.close()

    assert Wire().deserialize(dead_letter.key, dead_letter.value) == events[2]
    assert [command.caused_by for command in commands] == [events[3].event_id, events[6].event_id]


def tasks_of(bus: KafkaBus, prefix: str) -> list[TaskIssued]:
    found = [
        Wire().deserialize(it.key, it.value) for it in bus.log(Partition(f"{prefix}.tasks", 0))
    ]
    return [task for task in found if isinstance(task, TaskIssued)]
