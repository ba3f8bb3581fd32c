"""Every command: examples in its help, `--json`, and nothing that is cut on a narrow terminal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import pytest
from typer.testing import CliRunner

from support.commands import ALL, EXAMPLES
from tidegate.cli import app, output
from tidegate.cli.exit_codes import MEANINGS
from tidegate.cli.options import parameters

NARROW: Final = "40"
WITHOUT_JSON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "asyncapi": "its output is JSON",
        "schemas example": "its output is JSON",
        "config init": "its output is a settings file",
        "spark-archive": "its output is settings",
        "run": "a service: its log is JSON where it is not a terminal",
        "monitor": "a service",
        "bridge metastore": "a service",
        "bridge hudi": "a service",
        "broker": "a service",
    }
)


every_command = pytest.mark.parametrize("name", sorted(ALL))


def options_of(name: str) -> set[str]:
    return {opt for option in ALL[name].params for opt in option.opts}


@cache
def help_of(name: str, columns: str = NARROW) -> str:
    return CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": columns}).output


@every_command
def test_every_command_has_an_example(name: str) -> None:
    assert EXAMPLES[name], f"add examples to the docstring of `tidegate {name}`"


@every_command
def test_every_option_and_argument_has_help(name: str) -> None:
    assert [found.name for found in ALL[name].params if not getattr(found, "help", "")] == []


def test_a_docstring_describes_nothing_that_the_command_does_not_have() -> None:
    def command(table: str, limit: int = 1) -> None:
        """Do it.

        Positional:
            table: Which
                table.

        Options:
            limt: How many.
        """

    with pytest.raises(KeyError, match="limt"):
        parameters(command)


@every_command
def test_every_command_has_json_or_a_reason_to_have_none(name: str) -> None:
    has_json = any("--json" in option.opts for option in ALL[name].params)

    assert has_json != (name in WITHOUT_JSON)


@every_command
def test_help_on_a_narrow_terminal_cuts_nothing(name: str) -> None:
    shown = help_of(name)

    for option in ALL[name].params:
        longest = max(option.opts, key=len)
        assert not longest.startswith("-") or longest in shown
    for line in EXAMPLES[name]:
        assert line in shown


@pytest.mark.parametrize("name", ["", *(n for n in sorted(ALL) if "--wait" in options_of(n))])
def test_exit_codes_are_in_the_help_of_what_exits_by_them(name: str) -> None:
    shown = help_of(name, "200")

    for code, meaning in MEANINGS.items():
        assert f"  {code.value}  {meaning}" in shown


ROW: Final = {
    "id": "518e8f86-1234-5678-9abc-def012345678",
    "at": "2026-11-21T04:15:51.845Z",
    "service": "coordinator",
    "origin": "tidegate.commits/3/471123",
    "table": "lake.sales.orders_of_the_last_century",
    "state": "open",
    "reason": "the instant 20261121041551845 is more than a day later than the broker's time",
}


@pytest.mark.parametrize("columns", ["20", NARROW, "60", "79"])
def test_a_row_on_a_narrow_terminal_is_whole(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(output, "is_terminal", lambda: True)

    output.write_table([ROW, ROW | {"state": None}])

    shown = capsys.readouterr().out
    for value in ROW.values():
        assert shown.count(value) >= 1
    assert "None" not in shown


@pytest.mark.parametrize("columns", ["84", "100", "120", "400"])
def test_a_row_on_a_wider_terminal_is_whole(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table that breaks no word, else as lines that the terminal wraps."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(output, "is_terminal", lambda: True)

    output.write_table([ROW])

    shown = capsys.readouterr().out
    assert "…" not in shown
    for value in ROW.values():
        assert all(word in shown for word in value.split())


def test_a_list_for_scripts_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json_lines([ROW, ROW])
    output.write_json_lines([])

    assert len(capsys.readouterr().out.splitlines()) == 2
