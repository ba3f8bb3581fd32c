"""Listing dead letters: the newest cost little, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import pytest

from support.samples import NOON
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.tasks import UNKNOWN_TABLE
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters import DeadLetter, DeadLetterFilter, box
from tidegate.ops.dead_letters.dead_letter import difference, read_dead_letter
from tidegate.runtime.bus import Partition, Record
from tidegate.service.settings import Settings

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
    gaps: set[int] = field(default_factory=set[int])
    """Offsets of the dead letters at which no record is."""

    def at(self, topic: str, moment_ms: int) -> int:
        return max(0, EACH[topic] - (NOW - moment_ms) * EACH[topic] // (100 * DAY))

    def spans(self, topic: str, since_ms: int = 0) -> dict[Partition, range]:
        self.requests += since_ms > 0
        first = self.at(topic, since_ms) if since_ms else 0
        return {Partition(topic, number): range(first, EACH[topic]) for number in range(4)}

    def read(self, spans: Mapping[Partition, range]) -> Iterator[Record]:
        for part, span in spans.items():
            for offset in span:
                if part.topic == DEAD_LETTERS and offset in self.gaps:
                    continue
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


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def listed(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[DeadLetter]]:
    """The list of a deployment's dead letters."""
    monkeypatch.setattr(box, "KafkaBus", lambda _: topics)
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "nowhere:1"}})
    return partial(box.DeadLetterBox(settings).list, DeadLetterFilter())


def test_the_newest_hundred_of_fifty_thousand_are_listed_without_the_others(
    topics: Topics, listed: Callable[..., Iterator[DeadLetter]]
) -> None:
    found = [it.record.timestamp_ms for it in islice(listed(), 100)]

    assert found == sorted(found, reverse=True)
    assert topics.taken[DEAD_LETTERS] <= 4 * 500 + 4
    assert topics.taken[OUTCOMES] == 200_000
    assert topics.requests == 1


@pytest.mark.parametrize("days", [0.5, 3, 60])
def test_the_latest_resolution_counts_however_late_it_came(
    days: float, topics: Topics, listed: Callable[..., Iterator[DeadLetter]]
) -> None:
    dead_letter = next(listed())
    topics.resolve(dead_letter.dead_letter_id, DeadLetterRedriven, NOW - int(70 * DAY))
    topics.resolve(dead_letter.dead_letter_id, DeadLetterDiscarded, NOW - int((70 - days) * DAY))

    assert next(listed()).dead_letter_id != dead_letter.dead_letter_id
    first, second = islice(listed(include_resolved=True), 2)
    assert (first.dead_letter_id, first.state) == (dead_letter.dead_letter_id, "discarded")
    assert second.state == "open"


def test_a_resolution_is_found_where_the_topic_begins_with_a_gap(
    topics: Topics, listed: Callable[..., Iterator[DeadLetter]]
) -> None:
    """As after a transaction, or where retention ran meanwhile. What is resolved stays resolved."""
    dead_letter = next(listed())
    topics.resolve(dead_letter.dead_letter_id, DeadLetterDiscarded, NOW - DAY)
    topics.gaps.add(0)

    assert next(listed()).dead_letter_id != dead_letter.dead_letter_id


def test_poison_on_the_dead_letter_topic_is_listed_by_its_place() -> None:
    where = Partition(DEAD_LETTERS, 0)
    unreadable = Record(where, 7, None, None, (), NOW, "the client can't read it")

    found = read_dead_letter(unreadable, Wire())

    assert (found.error, found.table) == ("the client can't read it", UNKNOWN_TABLE)
    assert "can't be read" in difference(found, unreadable)
