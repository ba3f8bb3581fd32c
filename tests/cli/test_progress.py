"""A command that takes long says how far it is, in few lines; a quick one says nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli import progress
from tidegate.cli.progress import Progress


def ticking(seconds: float) -> Iterator[float]:
    """A clock that goes on by so much at every reading."""
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


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A command that ends once it has been under way for so long that this was said, or not."""
    app = typer.Typer()
    group = typer.Typer()

    @group.command("slow")
    def _slow(*, as_json: bool = False, follow: bool = False) -> None:
        said.wait(0.1 if as_json or follow else 10)

    @group.command("other")
    def _other() -> None:
        """So that the group is one."""

    def write_error(line: str) -> None:
        typer.echo(line, err=True)
        said.set()

    said = threading.Event()
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(progress, "write_error", write_error)
    monkeypatch.setattr(progress, "is_terminal", lambda **_: True)
    app.add_typer(group, name="group")
    progress.add_progress(app)
    return app


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param([], "group slow is under way, 0 s ...", id="to a person"),
        pytest.param(["--as-json"], "", id="JSON"),
        pytest.param(["--follow"], "", id="what comes is waited for"),
    ],
)
def test_any_command_says_that_it_is_under_way_but_not_to_a_script(
    slow: typer.Typer, options: list[str], expected: str
) -> None:
    result = CliRunner().invoke(slow, ["group", "slow", *options])

    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.splitlines()[:1] == ([expected] if expected else [])


def test_nothing_is_printed_where_standard_error_is_not_a_terminal(
    slow: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda **_: False)
    monkeypatch.setattr(threading, "Thread", None)  # not even a thread is started

    assert CliRunner().invoke(slow, ["group", "slow", "--follow"]).stderr == ""


def test_what_counts_records_says_no_more_than_that(capsys: pytest.CaptureFixture[str]) -> None:
    waits = iter([False, False, True])

    def wait(_: float) -> bool:
        list(Progress(lambda: next(clock))(range(256)))
        return next(waits)

    clock = ticking(3.0)
    progress.say_unless_said("slow is under way", wait)

    said = capsys.readouterr().err
    assert said.count("records read") == 3
    assert "under way" not in said
