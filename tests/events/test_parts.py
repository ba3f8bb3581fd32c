"""Outcomes in parts: each fits into a message, and readers put them together again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from support.samples import NOON, commit
from tidegate.events import CleaningStarted, DirectoriesCleaned
from tidegate.events.cleanings import DirectoriesOutcome, PartsJoiner, split_by_names
from tidegate.events.codec import encode

NAMES = [f"delta_{number:07d}_{number:07d}_0000" for number in range(100_000)]
BROKERS_DEFAULT = 1_048_588
CAUSE = commit(1)


def cleaned(**fields: Any) -> DirectoriesCleaned:  # noqa: ANN401 - an event's fields
    counts = {"directories": ("a",), "files": 1, "bytes": 10, "duration_ms": 5}
    known = counts | {"source": "cleaner", "occurred_at": NOON}
    return DirectoriesCleaned.about(CAUSE, **(known | fields))


def joined(outcomes: list[DirectoriesCleaned]) -> list[DirectoriesOutcome]:
    joiner = PartsJoiner()
    return [whole for whole in map(joiner.add, outcomes) if whole is not None]


def test_a_hundred_thousand_names_go_out_in_messages_that_every_broker_takes() -> None:
    groups = split_by_names((name, name) for name in NAMES)

    events = [
        cleaned(directories=group, part=number, parts=len(groups))
        for number, group in enumerate(groups, 1)
    ]
    assert max(len(encode(event)) for event in events) < BROKERS_DEFAULT / 2
    assert len(events) <= 10
    [whole] = joined(events)
    assert list(whole.directories) == NAMES
    assert whole.event_id == cleaned().event_id


def test_no_directory_is_an_outcome_too() -> None:
    assert split_by_names([]) == [[]]


def parts(of: int, *numbers: int) -> list[DirectoriesCleaned]:
    return [cleaned(directories=(f"d{n}",), part=n, parts=of) for n in numbers]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([cleaned()], [1], id="whole"),
        pytest.param(parts(3, 1, 2, 3), [3], id="in parts"),
        pytest.param([*parts(3, 1, 2), cleaned()], [1], id="killed, and nothing was left"),
        pytest.param([*parts(3, 1, 2), *parts(3, 1, 2, 3)], [3], id="killed, and said again"),
        pytest.param([*parts(3, 1, 2), *parts(2, 1, 2)], [2], id="killed, and fewer were left"),
        pytest.param(parts(3, 2, 3), [], id="the first is no longer on the topic"),
        pytest.param([*parts(2, 1, 2), *parts(2, 1, 2)], [2, 2], id="twice"),
    ],
)
def test_what_readers_join(outcomes: list[DirectoriesCleaned], expected: list[int]) -> None:
    assert [len(whole.directories) for whole in joined(outcomes)] == expected


@pytest.mark.parametrize(("part", "of"), [(0, 2), (3, 2), (None, 2), (1, None)])
def test_a_part_has_a_place_among_the_parts(part: int | None, of: int | None) -> None:
    with pytest.raises(ValidationError, match="is not a part"):
        cleaned(part=part, parts=of)


def test_the_parts_of_one_outcome_have_different_ids_and_the_first_has_that_of_the_whole() -> None:
    ids = [part.event_id for part in parts(3, 1, 2, 3)]
    assert len(set(ids)) == 3
    assert ids[0] == cleaned().event_id
    own = {"event_id", "duration_ms", "superseded_by"}
    fields = cleaned(part=2, parts=3).model_dump(exclude=own)
    assert CleaningStarted.model_validate(fields).event_id not in ids


def test_a_part_that_does_not_follow_says_so_and_changes_nothing() -> None:
    joiner = PartsJoiner()
    first, second, third = parts(3, 1, 2, 3)

    assert joiner.add(second) is None
    assert (joiner.follows(first), joiner.follows(second)) == (True, False)
    assert joiner.add(first) is None
    assert (joiner.follows(second), joiner.follows(third)) == (True, False)
    assert joiner.add(third) is None
    assert joiner.add(second) is None
    whole = joiner.add(third)
    assert whole is not None
    assert (whole.directories, whole.part) == (("d1", "d2", "d3"), None)
