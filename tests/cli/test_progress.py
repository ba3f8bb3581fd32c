"""A command that takes long says how far it is, in few lines; a quick one says nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from tidegate.cli.progress import Progress, say_until, under_way


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


def test_a_step_without_records_says_that_it_is_under_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 4

    say_until("reading /lake/orders", wait)

    said = capsys.readouterr()
    assert said.out == ""
    assert waited == [2, 2, 4, 8, 16]
    assert said.err.splitlines() == [
        f"tidegate: reading /lake/orders, {seconds} s ..." for seconds in (2, 4, 8, 16)
    ]


def test_a_step_that_ends_at_once_says_nothing_and_leaves_no_thread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), under_way("reading"):
        raise KeyError

    assert threading.active_count() == before
    assert capsys.readouterr().err == ""
