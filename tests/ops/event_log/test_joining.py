"""The log shows an outcome in parts once, and never hides a part."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.samples import NOON, commit
from tidegate.events import CleaningStarted, DirectoriesCleaned
from tidegate.events.cleanings import DirectoriesOutcome
from tidegate.ops.event_log import LoggedEvent, _JoinedLog
from tidegate.ops.summary import line_of
from tidegate.runtime.bus import Partition, Record

Part = tuple[str, int | None]
"""The cause of an outcome, and which part of three it is; None: it is whole."""


def logged(number: int, part: Part) -> LoggedEvent:
    cause, at = commit(ord(part[0])), part[1]
    fields = {"directories": (f"d{at}",), "files": 1, "bytes": 10, "duration_ms": 5}
    place = {} if at is None else {"part": at, "parts": 3}
    known = {"source": "cleaner", "occurred_at": NOON}
    event = DirectoriesCleaned.about(cause, **known, **fields, **place)
    record = Record(Partition("tidegate.outcomes", 0), number, b"k", b"", (), number)
    return LoggedEvent(record, event)


def shown(found: Iterable[LoggedEvent]) -> list[tuple[int, int | None, int]]:
    """Of each its offset, its part, and how many directories it names."""
    return [
        (item.record.offset, item.event.part, len(item.event.directories))
        for item in found
        if isinstance(item.event, DirectoriesOutcome)
    ]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([("a", None)], [(0, None, 1)], id="whole"),
        pytest.param([("a", 1), ("a", 2), ("a", 3)], [(2, None, 3)], id="in parts"),
        pytest.param(
            [("a", 1), ("b", 1), ("a", 2), ("b", None), ("a", 3)],
            [(3, None, 1), (4, None, 3), (1, 1, 1)],
            id="of two causes",
        ),
        pytest.param(
            [("a", 1), ("a", 2), ("a", 1), ("a", 2), ("a", 3)],
            [(0, 1, 1), (1, 2, 1), (4, None, 3)],
            id="killed, and said again",
        ),
        pytest.param([("a", 2), ("a", 3)], [(0, 2, 1), (1, 3, 1)], id="the first is not read"),
        pytest.param([("a", 1), ("a", 2)], [(0, 1, 1), (1, 2, 1)], id="the last is missing"),
    ],
)
def test_the_parts_of_an_outcome_are_one_event(
    parts: list[Part], expected: list[tuple[int, int | None, int]]
) -> None:
    log = _JoinedLog()
    found = [item for number, part in enumerate(parts) for item in log.add(logged(number, part))]

    assert shown([*found, *log.rest()]) == expected
    assert list(log.rest()) == []


def test_a_part_says_which_one_it_is() -> None:
    assert "(part 2 of 3)" in line_of(logged(0, ("a", 2)))
    log = _JoinedLog()
    [whole] = [item for n in (1, 2, 3) for item in log.add(logged(n, ("a", n)))]
    assert "d1, d2, d3: 3 files, 30 bytes" in line_of(whole)
    assert "part" not in line_of(whole)


def test_what_has_no_parts_goes_through() -> None:
    unreadable = LoggedEvent(logged(1, ("a", 1)).record, None, "not Avro")
    started = CleaningStarted.about(
        commit(1), source="c", occurred_at=NOON, directories=("d",), files=1, bytes=1
    )
    log = _JoinedLog()
    both = [unreadable, LoggedEvent(unreadable.record, started)]

    assert [item for given in both for item in log.add(given)] == both
