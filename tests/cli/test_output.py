"""Nothing from outside reaches a terminal or a log as anything but visible text."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli import main, output
from tidegate.errors import PermanentError
from tidegate.events.wire import Wire
from tidegate.monitoring.visible import visible
from tidegate.ops.dead_letters import DeadLetter
from tidegate.ops.dead_letters.dead_letter import read_dead_letter
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter

CLI = Path(output.__file__).parent
CLEAR = "\x1b[2J\x1b[Hnothing will be removed\r\n\x9b2J\u202etxt\u2028[bold]x[/bold]"
SHOWN = r"\x1b[2J\x1b[Hnothing will be removed\x0d\x0a\x9b2J\u202etxt\u2028[bold]x[/bold]"


def hostile_dead_letter() -> DeadLetter:
    record = Record(Partition("tidegate.commits", 1), 4, CLEAR.encode(), b"x", (), 1_000)
    message = dead_letter(record, "cleaner", PermanentError(CLEAR), "tidegate.dead-letters")
    where = Partition(message.topic, 1)
    record = Record(where, 0, message.key, message.value, message.headers, 2_000)
    return read_dead_letter(record, Wire())


def test_a_line_shows_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(CLEAR)

    assert capsys.readouterr().out == SHOWN + "\n"


def test_a_table_shows_them_too_and_interprets_no_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.write_table([{"name": CLEAR, "lines": (CLEAR, "b")}])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].count(SHOWN) == 2


def test_a_styled_line_shows_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_styled((CLEAR, "bold"), (": end", None))

    assert capsys.readouterr().out == f"{SHOWN}: end\n"


def test_a_table_has_its_columns_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(
        [{"a_name": "漢", "at": None, "why": "x" * 500}, {"n": "b", "a": 1, "w": ""}]
    )

    assert capsys.readouterr().out.splitlines() == [
        "a name  at  why",
        "漢      -   " + "x" * 500,
        "b       1",
    ]


def test_a_narrow_terminal_folds_the_last_column_and_breaks_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    row = {"savepoint": "20261124175553600", "by": "policy:default", "files": 2}

    output.write_table([row | {"comment": "before the monthly audit of all the orders, by ana"}])
    lines = capsys.readouterr().out.splitlines()
    start = "20261124175553600  policy:default  2      "
    assert lines[1:] == [start + "before the monthly audit of all the", " " * 42 + "orders, by ana"]

    output.write_table([row | {f"id_{number}": "x" * 36 for number in range(2)}])
    assert "savepoint: 20261124175553600\n" in capsys.readouterr().out


def test_a_dead_letter_with_a_hostile_reason_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    row = hostile_dead_letter().row

    output.write_table([row])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert SHOWN in lines[1]
    output.write_json_lines([row])
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text)["reason"] == CLEAR


def test_a_plan_with_a_hostile_file_name_names_it_visibly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "\x1b[2Jvacuum.json"
    monkeypatch.setattr(sys, "argv", ["tidegate", "plan", "clean", str(missing)])

    with pytest.raises(SystemExit):
        main()

    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err
    assert r"\x1b[2Jvacuum.json" in output.err


@given(st.text())
def test_whatever_the_text_it_is_one_printable_line(text: str) -> None:
    shown = visible(text)

    assert "\n" not in shown
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode()


@pytest.mark.parametrize(
    "module",
    sorted(str(path.relative_to(CLI)) for path in CLI.rglob("*.py") if path.name != "output.py"),
)
def test_every_command_prints_through_the_one_module_that_escapes(module: str) -> None:
    tree = ast.parse((CLI / module).read_text("utf-8"))
    names = {
        ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)
    }
    printing = {"print", "typer.echo", "typer.secho", "click.echo", "sys.stdout", "sys.stderr"}
    assert not names & (printing | {"Console", "typer.echo_via_pager"})
