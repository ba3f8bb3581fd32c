"""Looking up the outcomes of a command: by what was appended since, wherever they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from support.memory_bus import MemoryBus
from support.samples import memory_bus, message, savepoint_request
from tidegate.errors import TransientError
from tidegate.events import SavepointCreated, SavepointRequested
from tidegate.events.keys import partition_of
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.executor import outcome_lookup
from tidegate.runtime.executor.outcome_lookup import OutcomeLookup

OUTCOMES = "tidegate.outcomes"
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
PARTITIONS = 12
TABLES = [f"lake.sales.t{number}" for number in range(100)]
TABLE_OF = {partition_of(table, PARTITIONS): table for table in TABLES}


@dataclass
class YearOfOutcomes(MemoryBus):
    """Ten million outcomes, evenly over a year and twelve partitions; counts what is read."""

    per_partition: int = 10_000_000 // PARTITIONS
    taken: int = 0
    reads: int = 0
    extra: dict[Partition, list[Record]] = field(default_factory=dict[Partition, list[Record]])

    def __post_init__(self) -> None:
        super().__init__([OUTCOMES], PARTITIONS)

    def spans(self, topic: str, since_ms: int = 0) -> dict[Partition, range]:
        first = max(0, self.per_partition - (NOW_MS - since_ms) * self.per_partition // YEAR)
        parts = [Partition(topic, number) for number in range(PARTITIONS)]
        end = self.per_partition
        return {part: range(first, end + len(self.extra.get(part, ()))) for part in parts}

    def read(self, spans: Mapping[Partition, range]) -> list[Record]:
        return list(self._read(spans))

    def _read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        self.reads += any(spans.values())
        for part, span in spans.items():
            self.taken += len(span)
            key = TABLE_OF[part.number].encode()
            for offset in span:
                if offset < self.per_partition:
                    yield Record(part, offset, key, b"another command's", (), NOW_MS)
                else:
                    yield self.extra[part][offset - self.per_partition]

    def append(self, sent: Message, number: int) -> None:
        part = Partition(OUTCOMES, number)
        records = self.extra.setdefault(part, [])
        at = self.per_partition + len(records)
        records.append(Record(part, at, sent.key, sent.value, sent.headers, NOW_MS))


def request(number: int, table: str = TABLES[0]) -> SavepointRequested:
    made = savepoint_request(number, table).model_dump(exclude={"event_id"})
    return SavepointRequested.model_validate(made | {"occurred_at": NOW - timedelta(hours=1)})


def outcome_of(command: SavepointRequested) -> SavepointCreated:
    fields = {"instant": "20260301100100000", "partitions": 1, "files": 1, "duration_ms": 1}
    return SavepointCreated.about(command, **fields, source="writer", occurred_at=NOW)


def test_a_request_of_the_last_hour_reads_what_was_appended_since_not_ten_million() -> None:
    bus = YearOfOutcomes()
    lookup = OutcomeLookup(bus, Wire(), "tidegate")
    assert lookup.outcomes_of(request(0), NOW_MS) == []
    first, bus.taken = bus.taken, 0
    assert lookup.outcomes_of(request(1), NOW_MS) == []

    a_day_and_an_hour = 25 * HOUR * bus.per_partition // YEAR + 1
    assert first <= PARTITIONS * a_day_and_an_hour  # 28,550: a seventh of a second's reading
    assert bus.taken <= a_day_and_an_hour  # then of the table's own partition only


def test_an_outcome_on_any_other_partition_is_found_also_one_that_comes_later() -> None:
    bus = YearOfOutcomes()
    lookup = OutcomeLookup(bus, Wire(), "tidegate")
    expected = [outcome_of(request(number)) for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        assert lookup.outcomes_of(request(number), NOW_MS) == []
        bus.append(message(expected[number]), number)

    for number in range(PARTITIONS):
        assert lookup.outcomes_of(request(number), NOW_MS) == [expected[number]]


def test_an_older_command_is_looked_up_further_back() -> None:
    bus = YearOfOutcomes()
    old = request(0)
    found = outcome_of(old)
    lookup = OutcomeLookup(bus, Wire(), "tidegate")
    lookup.outcomes_of(request(1), NOW_MS)
    wrong = Partition(OUTCOMES, (partition_of(old.table, PARTITIONS) + 1) % PARTITIONS)
    early = bus.per_partition - 5_000
    sent = message(found)
    record = Record(wrong, early, sent.key, sent.value, sent.headers, NOW_MS)
    read = bus._read
    bus._read = lambda spans: (  # type: ignore[method-assign]
        record if (found.partition, found.offset) == (wrong, early) else found
        for found in read(spans)
    )

    assert lookup.outcomes_of(old, NOW_MS - 10 * 24 * HOUR) == [found]


def test_a_command_that_was_answered_before_the_topic_grew_is_answered() -> None:
    before, after = 3, 7
    moved = next(t for t in TABLES if partition_of(t, before) != partition_of(t, after))
    bus = memory_bus(partitions=before)
    lookup = OutcomeLookup(bus, Wire(), "tidegate")
    command = savepoint_request(0, moved)
    now = int(command.occurred_at.timestamp() * 1000)
    bus.send([message(outcome_of(command))])
    assert len(lookup.outcomes_of(command, now)) == 1

    grown = memory_bus(partitions=after)
    for where, records in bus._logs.items():
        grown._logs[where] = records
    assert len(OutcomeLookup(grown, Wire(), "tidegate").outcomes_of(command, now)) == 1
    lookup._bus = lookup._misplaced.bus = grown  # a process that runs while it grows
    assert len(lookup.outcomes_of(command, now)) == 1


@pytest.mark.parametrize("recreated", [False, True])
def test_misplaced_outcomes_that_are_too_many_to_remember_are_read_each_time(
    recreated: bool,  # noqa: FBT001 - a parameter
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcome_lookup, "MAX_MISPLACED", 3)
    bus = memory_bus(partitions=2)
    lookup = OutcomeLookup(bus, Wire(), "tidegate")
    home = partition_of(TABLES[0], 2)
    commands = [request(number) for number in range(10)]
    bus.send([message(outcome_of(command))._replace(partition=1 - home) for command in commands])
    assert [len(lookup.outcomes_of(command, NOW_MS)) for command in commands] == [1] * 10
    if recreated:
        bus.recreate(OUTCOMES)
        bus.send([message(outcome_of(commands[0]))._replace(partition=1 - home)])

        found = [len(lookup.outcomes_of(command, NOW_MS)) for command in commands]
        assert found == [1] + [0] * 9


def test_a_broker_that_does_not_know_the_topic_yet_is_waited_for() -> None:
    lookup = OutcomeLookup(MemoryBus(["tidegate.commands"]), Wire(), "tidegate")

    with pytest.raises(TransientError, match=r"tidegate\.outcomes does not exist"):
        lookup.outcomes_of(request(0), NOW_MS)
