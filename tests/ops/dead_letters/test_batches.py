"""The originals of many dead letters are read in few runs."""

from __future__ import annotations

import pytest

from tidegate.ops.dead_letters.box import runs
from tidegate.runtime.bus import Partition

LOCKS = "tidegate.locks"


def test_the_originals_of_neighbours_are_read_in_one_run() -> None:
    places = [(Partition(LOCKS, number), offset) for offset in range(500) for number in range(3)]

    assert list(runs(places)) == [(Partition(LOCKS, number), range(500)) for number in range(3)]


def test_records_far_apart_are_not_read_with_what_is_between_them() -> None:
    one, other = Partition(LOCKS, 0), Partition(LOCKS, 1)
    places = [(one, 5), (other, 7), (one, 1_000_000), (one, 7), (one, 5)]

    assert list(runs(places)) == [
        (one, range(5, 8)),
        (one, range(1_000_000, 1_000_001)),
        (other, range(7, 8)),
    ]


@pytest.mark.parametrize("places", [[], [(Partition(LOCKS, 0), 3)]])
def test_nothing_but_what_is_wanted_is_read(places: list[tuple[Partition, int]]) -> None:
    assert [(part, offset) for part, span in runs(places) for offset in span] == places
