"""A limit on dead letters that no restart and no change of owner sets back."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from datetime import datetime

import pytest

from support.deployment import Deployment
from support.memory_bus import MemoryBus
from support.samples import (
    EveryThird,
    Recorder,
    commit,
    message,
    outcomes_on,
    savepoint_request,
    task_of,
)
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Effects
from tidegate.errors import (
    ConfinementError,
    DeadLetterFlood,
    FormatError,
    MessageTooLargeError,
    MetastoreRefusedError,
    PermanentError,
    TransientError,
)
from tidegate.events import Event
from tidegate.events.topics import ALL_TOPICS
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.input.dead_letter_limit import DeadLetterLimit, Fault, fault_of
from tidegate.runtime.input.dead_letters import counted
from tidegate.runtime.kafka.bus import KafkaBus

ZERO, ONE = Partition("tidegate.tasks", 0), Partition("tidegate.tasks", 1)
DEAD = "tidegate.dead-letters"
BUG = ValueError("a bug")
TABLES = [f"lake.a.t{number}" for number in range(100)]


def record_of(partition: Partition, key: str = "lake.a.b") -> Record:
    return Record(partition, 0, key.encode(), b"x", (), 0)


def dead_letters_until_flood(
    limit: DeadLetterLimit,
    partition: Partition,
    error: Exception = BUG,
    keys: Sequence[str] = TABLES,
) -> int:
    for count in range(1000):
        try:
            limit.failed(record_of(partition, keys[count % len(keys)]), error, "cleaner")
        except DeadLetterFlood:
            return count
    raise AssertionError("there is no limit")


def assert_never_stops(error: Exception, keys: Sequence[str] = TABLES) -> None:
    with pytest.raises(AssertionError, match="there is no limit"):
        dead_letters_until_flood(DeadLetterLimit(), ZERO, error, keys)


def test_each_partition_has_a_count_of_its_own() -> None:
    limit = DeadLetterLimit(window=10, max_failures=5)

    assert dead_letters_until_flood(limit, ZERO) == 5
    assert dead_letters_until_flood(limit, ONE) == 5


def test_a_message_that_was_refused_does_not_count() -> None:
    limit = DeadLetterLimit(window=4, max_failures=2)

    refused = [dead_letters_until_flood(limit, ZERO, keys=TABLES[at:]) for at in (0, 2, 3)]
    assert refused == [2, 0, 0]
    assert len(limit.history(ZERO)) == 2


def test_the_count_goes_along_with_the_partition() -> None:
    before, after = (
        DeadLetterLimit(window=10, max_failures=5),
        DeadLetterLimit(window=10, max_failures=5),
    )
    for table in TABLES[:3]:
        before.failed(record_of(ZERO, table), BUG, "cleaner")
    before.succeeded(ZERO)
    after.restore(ZERO, before.history(ZERO))

    assert before.history(ZERO)[3:] == "."
    assert dead_letters_until_flood(after, ZERO) == 2


@pytest.mark.parametrize("metadata", ["", "another tool's", "x" * 5 + "!"])
def test_commit_metadata_of_another_tool_counts_as_nothing(metadata: str) -> None:
    limit = DeadLetterLimit(window=10, max_failures=5)
    limit.restore(ZERO, metadata)

    assert dead_letters_until_flood(limit, ZERO) == 5


def test_a_window_that_was_made_smaller_takes_the_newest_of_a_longer_history() -> None:
    limit = DeadLetterLimit(window=4, max_failures=3)
    limit.restore(ZERO, "xxxxxx..")

    assert limit.history(ZERO) == "xx.."


def test_where_max_failures_is_the_window_no_bug_stops_a_service() -> None:
    limit = DeadLetterLimit(window=10, max_failures=10)

    with pytest.raises(AssertionError, match="there is no limit"):
        dead_letters_until_flood(limit, ZERO)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FormatError("junk"), id="undecodable"),
        pytest.param(PermanentError("never"), id="asks for what is never done"),
        pytest.param(MessageTooLargeError("2 MB"), id="too large"),
        pytest.param(ConfinementError("/etc"), id="outside the warehouse"),
    ],
)
def test_invalid_messages_of_any_number_of_tables_stop_no_service(error: Exception) -> None:
    assert fault_of(error) is Fault.MESSAGE
    assert_never_stops(error)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(PermissionError(13, "Permission denied"), id="permissions"),
        pytest.param(PermissionError("AccessDenied"), id="an object store's permissions"),
        pytest.param(OSError(errno.EROFS, "Read-only"), id="mounted read-only"),
        pytest.param(OSError(errno.ENAMETOOLONG, "too long"), id="a name too long"),
        pytest.param(MetastoreRefusedError("no such table"), id="the Metastore"),
    ],
)
def test_locations_that_refuse_stop_no_service(error: Exception) -> None:
    assert fault_of(error) is Fault.LOCATION
    assert_never_stops(error)


def test_storage_that_does_not_answer_stops_the_service_before_all_is_dead_lettered() -> None:
    limit = DeadLetterLimit()

    assert dead_letters_until_flood(limit, ZERO, TransientError("no route to host")) == 50
    assert dead_letters_until_flood(limit, ONE, OSError(errno.EIO, "I/O error")) == 0


def test_storage_of_one_tenant_that_does_not_answer_stops_no_service() -> None:
    limit = DeadLetterLimit()
    for count in range(1000):
        limit.failed(record_of(ZERO, TABLES[count % 60]), TransientError("away"), "cleaner")
        if count % 40 == 0:
            limit.succeeded(ONE)


def test_a_bug_that_two_tables_meet_stops_no_service() -> None:
    assert_never_stops(BUG, TABLES[:2])


def test_a_bug_that_one_table_meets_for_ever_and_others_now_and_then_stops_no_service() -> None:
    limit = DeadLetterLimit()
    for count in range(1000):
        key = TABLES[1 + count % 50] if count % 10 == 0 else TABLES[0]
        limit.failed(record_of(ZERO, key), BUG, "cleaner")
        limit.succeeded(ZERO)


def test_a_bug_stops_the_service_also_where_a_partition_has_one_table() -> None:
    limit = DeadLetterLimit()
    parts = [Partition("tidegate.tasks", number) for number in range(3)]
    for count in range(3 * 50):
        part = parts[count % 3]
        limit.failed(record_of(part, TABLES[part.number]), BUG, "cleaner")

    assert dead_letters_until_flood(limit, parts[0], keys=TABLES[:1]) == 0


def test_invalid_messages_in_between_do_not_hide_a_bug() -> None:
    limit = DeadLetterLimit()
    for table in TABLES[:50]:
        limit.failed(record_of(ZERO, table), BUG, "cleaner")
        for stranger in TABLES:
            limit.failed(record_of(ZERO, stranger), FormatError("junk"), "cleaner")

    assert dead_letters_until_flood(limit, ZERO, keys=TABLES[50:]) == 0


def test_a_batch_of_messages_that_the_client_cannot_read_stops_no_service() -> None:
    class Bomb(MemoryBus):
        """The first batch of the commits unpacks to more than the client takes."""

        def log(self, partition: Partition) -> list[Record]:
            records = super().log(partition)
            if partition.topic != "tidegate.commits":
                return records
            unreadable = Record(partition, 0, None, None, (), 0, "the client can't read it")
            return [unreadable._replace(offset=n) for n in range(200)] + records[200:]

    names = [topic.name() for topic in ALL_TOPICS]
    bus = Bomb(names, partitions=1)
    bus.send([message(commit(n)) for n in range(206)])
    loop = CoordinatorLoop(EveryThird(), bus)
    while loop.step(0):
        pass

    loop.close()

    assert sum(counted(record.headers)[1] for record in bus.records(DEAD)) == 200
    assert len(outcomes_on(bus)) == 2


class BadCode(EveryThird):
    """A decider with a bug that every event meets."""

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:  # noqa: ARG002 - the protocol's
        raise ValueError("a bug")


def test_no_number_of_restarts_drains_a_deciders_events_into_the_dead_letters(
    bus: MemoryBus,
) -> None:
    def process_one_by_one(loop: CoordinatorLoop) -> None:
        for number in range(100):  # each is acknowledged before the next comes
            bus.send([message(commit(number, TABLES[number]))])
            while loop.step(0):
                pass

    for _ in range(4):
        loop = CoordinatorLoop(BadCode(), bus)
        with pytest.raises(DeadLetterFlood):
            process_one_by_one(loop)
        loop.close()

    assert len(bus.records(DEAD)) == 50
    assert bus.committed["tidegate.coordinator"][Partition("tidegate.commits", 0)] == 50


@pytest.mark.kafka
def test_the_broker_keeps_the_count_over_restarts(deployment: Deployment) -> None:
    requests = [savepoint_request(n, TABLES[n % 100]) for n in range(120)]
    prefix = deployment.prefix
    deployment.publisher().publish(*(task_of(it, n + 1, prefix) for n, it in enumerate(requests)))
    bus = KafkaBus(deployment.connection)
    for _ in range(3):
        faults: list[Exception] = [ValueError("a bug") for _ in range(300)]
        loop = ExecutorLoop(Recorder(faults=faults), bus, deployment.prefix)
        with pytest.raises(DeadLetterFlood, match=f"{deployment.prefix}.tasks"):
            loop.run(threading.Event())
        loop.close()
    bus.close()

    assert len(deployment.records("dead-letters")) == 50
