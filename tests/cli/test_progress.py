"""A command that takes long says how far it is, in few lines; a quick one says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tidegate.cli.progress import Progress


def ticking(seconds: float) -> Iterator[float]:
    """A clock that goes on by so much whenever somebody looks at it."""
    return (number * seconds for number in count())


def lines(seconds: float, records: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    clock = ticking(seconds)
    progress = Progress(lambda: next(clock))
    half = records // 2
    assert [*progress(range(half)), *progress(range(half, records))] == list(range(records))
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


@pytest.mark.parametrize("records", [0, 255, 256 * 1_900])
def test_what_takes_less_than_two_seconds_says_nothing(
    records: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(0.001, records, capsys) == []


def test_what_takes_longer_says_how_much_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(1, 256 * 9, capsys) == [
        "tidegate: 512 records read in 2 s ...",
        "tidegate: 1024 records read in 4 s ...",
        "tidegate: 2048 records read in 8 s ...",
    ]


def test_an_hour_is_a_dozen_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(lines(1, 256 * 3600, capsys)) == 11
