"""Listing dead letters: the newest cost little, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import pytest

from support.samples import NOON
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.audit import UNKNOWN_TABLE
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.box import Resolutions, newest_first
from tidegate.ops.dead_letters.dead_letter import difference, read_dead_letter
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.kafka.bus import KafkaBus

DAY = 24 * 3_600_000
NOW = int(NOON.timestamp() * 1000)
DEAD_LETTERS, OUTCOMES = "tidegate.dead-letters", "tidegate.outcomes"
EACH = {DEAD_LETTERS: 50_000 // 4, OUTCOMES: 200_000 // 4}
"""Records of a partition, evenly over a hundred days."""


Kind = type[DeadLetterRedriven | DeadLetterDiscarded]


@dataclass
class Topics:
    """Two topics of four partitions, of which only what is read is made; counts it."""

    taken: dict[str, int] = field(default_factory=lambda: {DEAD_LETTERS: 0, OUTCOMES: 0})
    requests: int = 0
    resolved: dict[tuple[Partition, int], Record] = field(
        default_factory=dict[tuple[Partition, int], Record]
    )

    def at(self, topic: str, moment_ms: int) -> int:
        return max(0, EACH[topic] - (NOW - moment_ms) * EACH[topic] // (100 * DAY))

    def spans(self, topic: str, since_ms: int = 0) -> dict[Partition, range]:
        self.requests += since_ms > 0
        first = self.at(topic, since_ms) if since_ms else 0
        return {Partition(topic, number): range(first, EACH[topic]) for number in range(4)}

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        for part, span in spans.items():
            for offset in span:
                self.taken[part.topic] += 1
                at = NOW - (EACH[part.topic] - offset) * 100 * DAY // EACH[part.topic]
                made = Record(part, offset, b"k", b"v", (), at)
                yield self.resolved.get((part, offset), made)

    def resolve(self, caused_by: str, kind: Kind, at: int) -> None:
        event = kind.model_validate(
            {
                "table": "lake.sales.orders",
                "location": "unknown",
                "occurred_at": NOON,
                "source": "people",
                "caused_by": caused_by,
                "service": "gate",
                "origin_topic": "t",
                "origin_partition": 0,
                "origin_offset": 0,
                "error": "x",
                "requested_by": "ana",
                **({"reason": "old"} if kind is DeadLetterDiscarded else {}),
            }
        )
        sent = Wire().serialize(event, OUTCOMES)
        part, offset = Partition(OUTCOMES, 1), self.at(OUTCOMES, at)
        self.resolved[part, offset] = Record(part, offset, sent.key, sent.value, sent.headers, at)


def open_dead_letters(topics: Topics) -> Iterable[Record]:
    return newest_first(topics.spans(DEAD_LETTERS), topics.read)


def test_the_newest_hundred_of_fifty_thousand_read_no_more_than_a_page_and_its_time() -> None:
    topics = Topics()
    resolutions = Resolutions(cast("KafkaBus", topics), OUTCOMES, Wire())
    for record in islice(open_dead_letters(topics), 100):
        assert resolutions.state_of("any", record.timestamp_ms) == "open"

    assert topics.taken[DEAD_LETTERS] <= 4 * 500
    hours = 100 * 24 / 500 + 4  # the time of a hundred dead letters, the margin and its steps
    assert topics.taken[OUTCOMES] <= hours * 200_000 / (100 * 24)
    assert topics.requests <= 3


def test_all_of_them_read_each_outcome_once_in_few_requests() -> None:
    topics = Topics()
    resolutions = Resolutions(cast("KafkaBus", topics), OUTCOMES, Wire())
    topics.taken[DEAD_LETTERS] = sum(
        resolutions.state_of("any", record.timestamp_ms) == "open"
        for record in open_dead_letters(topics)
    )

    assert topics.taken == {DEAD_LETTERS: 50_000, OUTCOMES: 200_000}
    assert topics.requests <= 14


@pytest.mark.parametrize("days", [0.5, 3, 60])
def test_a_resolution_is_found_however_late_it_came(days: float) -> None:
    topics = Topics()
    made = NOW - int(70 * DAY)
    topics.resolve("a", DeadLetterRedriven, made + 1000)
    topics.resolve("a", DeadLetterDiscarded, made + int(days * DAY))
    resolutions = Resolutions(cast("KafkaBus", topics), OUTCOMES, Wire())

    assert resolutions.state_of("newer", NOW) == "open"
    assert resolutions.state_of("a", made) == "discarded"
    assert resolutions.state_of("b", made) == "open"


def test_poison_on_the_dead_letter_topic_is_listed_by_its_place() -> None:
    where = Partition(DEAD_LETTERS, 0)
    unreadable = Record(where, 7, None, None, (), NOW, "the client can't read it")

    found = read_dead_letter(unreadable)

    assert (found.error, found.table) == ("the client can't read it", UNKNOWN_TABLE)
    assert "can't be read" in difference(found, unreadable)
