"""Many dead letters: never all in memory, and their originals read in a few rounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.errors import PermanentError
from tidegate.ops.dead_letters import ListedDeadLetter, in_batches
from tidegate.ops.dead_letters.dead_letter import read_dead_letter
from tidegate.ops.dead_letters.reading import BATCH_BYTES, MAX_DEAD_LETTERS, reading_rounds
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter

LOCKS = "tidegate.locks"


class Topic:
    """Gives dead letters, and counts how many were taken."""

    def __init__(self, count: int, value: bytes = b"v") -> None:
        self.count, self.value, self.taken = count, value, 0

    def __iter__(self) -> Iterator[ListedDeadLetter]:
        for offset in range(self.count):
            self.taken += 1
            record = Record(Partition(LOCKS, 0), offset, b"k", self.value, (), 1_000)
            sent = dead_letter(record, "gate", PermanentError("x"), "tidegate.dead-letters")
            where = Partition("tidegate.dead-letters", 0)
            kept = Record(where, offset, sent.key, sent.value, sent.headers, 1_000)
            yield ListedDeadLetter(read_dead_letter(kept), "open")


def test_no_more_than_a_batch_is_read_before_it_is_worked_on() -> None:
    topic = Topic(3 * MAX_DEAD_LETTERS)
    done = 0
    for batch in in_batches(topic):
        assert topic.taken <= done + MAX_DEAD_LETTERS + 1
        done += len(batch)

    assert done == topic.taken == 3 * MAX_DEAD_LETTERS


def test_a_batch_of_large_dead_letters_is_bounded_by_its_bytes() -> None:
    large = Topic(10, value=bytes(BATCH_BYTES // 3))

    assert [len(batch) for batch in in_batches(large)] == [3, 3, 3, 1]
    assert [len(batch) for batch in in_batches(Topic(2, value=bytes(BATCH_BYTES + 1)))] == [1, 1]


def test_the_originals_of_neighbours_are_read_in_one_round() -> None:
    places = [(Partition(LOCKS, number), offset) for offset in range(500) for number in range(3)]

    assert list(reading_rounds(places)) == [{Partition(LOCKS, n): range(500) for n in range(3)}]


def test_records_far_apart_are_not_read_with_what_is_between_them() -> None:
    one, other = Partition(LOCKS, 0), Partition(LOCKS, 1)
    places = [(one, 5), (other, 7), (one, 1_000_000), (one, 7), (one, 5)]

    assert list(reading_rounds(places)) == [
        {one: range(5, 8), other: range(7, 8)},
        {one: range(1_000_000, 1_000_001)},
    ]


@pytest.mark.parametrize("places", [[], [(Partition(LOCKS, 0), 3)]])
def test_nothing_but_what_is_wanted_is_read(places: list[tuple[Partition, int]]) -> None:
    read = [
        (part, offset)
        for spans in reading_rounds(places)
        for part, span in spans.items()
        for offset in span
    ]
    assert read == places
