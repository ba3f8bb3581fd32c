"""A command that takes long says how far it is, in few lines; a quick one says nothing."""

from __future__ import annotations

import threading

import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli import progress


def test_an_hour_is_a_dozen_lines(capsys: pytest.CaptureFixture[str]) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return sum(waited) > 3600

    progress.say_until("replay is under way", wait)

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[:2] == [
        "tidegate: replay is under way, 2 s ...",
        "tidegate: replay is under way, 4 s ...",
    ]
    assert len(said.err.splitlines()) == 11


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
