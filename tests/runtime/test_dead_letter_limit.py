"""A limit on dead letters that no restart and no change of owner sets back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

import pytest

from support.deployment import Deployment
from support.samples import (
    Count,
    EveryThird,
    Recorder,
    commit,
    memory_bus,
    message,
    savepoint_request,
)
from tidegate.errors import DeadLetterFlood, FormatError, MessageTooLargeError, PermanentError
from tidegate.events import Event
from tidegate.events.topics import TOPICS, changelog
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.decider.loop import DeciderLoop
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letters import MAX_OF_A_KEY, DeadLetterLimit
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.memory.bus import MemoryBus
from tidegate.runtime.protocols import Decision

ZERO, ONE = Partition("tidegate.commands", 0), Partition("tidegate.commands", 1)
DEAD = "tidegate.dead-letters"
BUG = ValueError("a bug")


def record_of(partition: Partition, key: str = "lake.a.b") -> Record:
    return Record(partition, 0, key.encode(), b"x", (), 0)


def letters_until_flood(
    limit: DeadLetterLimit,
    partition: Partition,
    error: Exception = BUG,
    keys: Sequence[str] = ("lake.a.b",),
) -> int:
    for count in range(1000):
        try:
            limit.failed(record_of(partition, keys[count % len(keys)]), error, "cleaner")
        except DeadLetterFlood:
            return count
    raise AssertionError("there is no limit")


def test_each_partition_has_a_count_of_its_own() -> None:
    limit = DeadLetterLimit(window=10, max_failures=5)

    assert (letters_until_flood(limit, ZERO), letters_until_flood(limit, ONE)) == (5, 5)


def test_a_message_that_was_refused_does_not_count() -> None:
    limit = DeadLetterLimit(window=4, max_failures=2)

    assert [letters_until_flood(limit, ZERO) for _ in range(3)] == [2, 0, 0]
    assert limit.history(ZERO) == "xx"


def test_the_count_goes_along_with_the_partition() -> None:
    before, after = (
        DeadLetterLimit(window=10, max_failures=5),
        DeadLetterLimit(window=10, max_failures=5),
    )
    for _ in range(3):
        before.failed(record_of(ZERO), BUG, "cleaner")
    before.succeeded(ZERO)
    after.restore(ZERO, before.history(ZERO))

    assert before.history(ZERO) == "xxx."
    assert letters_until_flood(after, ZERO) == 2


@pytest.mark.parametrize("metadata", ["", "another tool's", "x" * 5 + "!"])
def test_commit_metadata_of_another_tool_counts_as_nothing(metadata: str) -> None:
    limit = DeadLetterLimit(window=10, max_failures=5)
    limit.restore(ZERO, metadata)

    assert letters_until_flood(limit, ZERO) == 5


def test_a_window_that_was_made_smaller_takes_the_newest_of_a_longer_history() -> None:
    limit = DeadLetterLimit(window=4, max_failures=3)
    limit.restore(ZERO, "xxxxxx..")

    assert limit.history(ZERO) == "xx.."


def test_where_most_is_the_whole_window_nothing_ever_stops_a_service() -> None:
    limit = DeadLetterLimit(window=10, max_failures=10)

    with pytest.raises(AssertionError, match="there is no limit"):
        letters_until_flood(limit, ZERO)


@pytest.mark.parametrize("error", [FormatError("junk"), PermanentError("never")])
def test_invalid_messages_of_one_table_stop_nobody_else(error: Exception) -> None:
    limit = DeadLetterLimit()

    with pytest.raises(AssertionError, match="there is no limit"):
        letters_until_flood(limit, ZERO, error)
    for _ in range(50 - MAX_OF_A_KEY):  # what fails on valid messages still counts in full
        limit.failed(record_of(ZERO), BUG, "cleaner")
    with pytest.raises(DeadLetterFlood):
        limit.failed(record_of(ZERO), BUG, "cleaner")


def test_invalid_messages_of_many_tables_stop_the_service() -> None:
    tables = [f"lake.a.t{number}" for number in range(100)]

    assert letters_until_flood(DeadLetterLimit(), ZERO, FormatError("junk"), tables) == 50


@pytest.mark.parametrize("tables", [3, 5])
def test_a_schema_that_nobody_can_read_stops_the_service_also_where_tables_are_few(
    tables: int,
) -> None:
    keys = [f"lake.a.t{number}" for number in range(tables)]

    assert letters_until_flood(DeadLetterLimit(), ZERO, FormatError("junk"), keys) == 50


def test_bad_writers_of_some_tables_stop_nobody_who_is_heard_in_between() -> None:
    limit, keys = DeadLetterLimit(), [f"lake.a.t{number}" for number in range(4)]
    for count in range(1000):
        limit.failed(record_of(ZERO, keys[count % 4]), FormatError("junk"), "gate")
        if count % 50 == 0:
            limit.succeeded(ZERO)


def test_messages_that_are_too_large_are_their_tables_fault_and_stop_nobody_else() -> None:
    with pytest.raises(AssertionError, match="there is no limit"):
        letters_until_flood(DeadLetterLimit(), ZERO, MessageTooLargeError("2 MB"))


def test_a_batch_of_messages_that_the_client_cannot_read_stops_nobody() -> None:
    class Bomb(MemoryBus):
        """The first batch of the commits unpacks to more than the client takes."""

        def log(self, partition: Partition, since_ms: int = 0) -> list[Record]:
            records = super().log(partition, since_ms)
            if partition.topic != "tidegate.commits":
                return records
            unreadable = Record(partition, 0, None, None, (), 0, "the client can't read it")
            return [unreadable._replace(offset=n) for n in range(200)] + records[200:]

    names = [*(topic.name() for topic in TOPICS), changelog(EveryThird.name).name()]
    bus = Bomb(names, partitions=1)
    bus.send([message(commit(n)) for n in range(206)])
    loop = DeciderLoop(EveryThird(), bus)
    while loop.step(0):
        pass

    assert (len(bus.records(DEAD)), len(bus.records("tidegate.commands"))) == (200, 2)
    loop.close()


def test_what_one_table_has_had_counted_goes_along_with_the_partition() -> None:
    before, after = DeadLetterLimit(), DeadLetterLimit()
    for _ in range(20):
        before.failed(record_of(ZERO), FormatError("junk"), "cleaner")
    after.restore(ZERO, before.history(ZERO))

    assert len(after.history(ZERO)) == 20
    assert letters_until_flood(after, ZERO) == 50 - MAX_OF_A_KEY


class BadCode(EveryThird):
    """A decider with a bug that every event meets."""

    def decide(self, state: Count, event: Event, at: datetime) -> Decision[Count]:  # noqa: ARG002 - the protocol's
        raise ValueError("a bug")


def test_no_number_of_restarts_drains_a_deciders_events_into_the_dead_letters() -> None:
    def process_one_by_one(loop: DeciderLoop[Count]) -> None:
        for number in range(100):  # each is acknowledged before the next comes
            bus.send([message(commit(number))])
            while loop.step(0):
                pass

    bus = memory_bus(EveryThird.name, partitions=1)
    for _ in range(4):
        loop = DeciderLoop(BadCode(), bus)
        with pytest.raises(DeadLetterFlood):
            process_one_by_one(loop)
        loop.close()

    assert len(bus.records(DEAD)) == 50
    assert bus.committed["tidegate.every-third"][Partition("tidegate.commits", 0)] == 50


@pytest.mark.kafka
def test_the_broker_keeps_the_count_over_restarts(deployment: Deployment) -> None:
    deployment.publisher().publish(*(savepoint_request(n) for n in range(120)))
    bus = KafkaBus(deployment.connection)
    for _ in range(3):
        faults: list[Exception] = [ValueError("a bug") for _ in range(300)]
        loop = ExecutorLoop(Recorder(faults=faults), bus, deployment.prefix)
        with pytest.raises(DeadLetterFlood, match=f"{deployment.prefix}.commands"):
            loop.run(threading.Event())
        loop.close()
    bus.close()

    assert len(deployment.records("dead-letters")) == 50
