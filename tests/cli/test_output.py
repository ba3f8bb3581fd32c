"""Nothing from outside reaches a terminal or a log as anything but visible text."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli import main, output
from tidegate.cli.repair.dead_letters import row_of
from tidegate.errors import PermanentError
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
    return read_dead_letter(Record(where, 0, message.key, message.value, message.headers, 2_000))


def test_a_line_shows_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(CLEAR)

    assert capsys.readouterr().out == SHOWN + "\n"


def test_a_table_shows_them_too_and_interprets_no_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.write_table([{"name": CLEAR, "lines": (CLEAR, "b")}])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].count(SHOWN) == 2


def test_a_styled_line_shows_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_styled((CLEAR, "bold"), (": end", None))

    assert capsys.readouterr().out == f"{SHOWN}: end\n"


@given(
    st.lists(
        st.tuples(st.text("ab xé漢\u0301", max_size=9), st.integers(), st.none()),
        min_size=1,
        max_size=4,
    )
)
def test_a_pipe_gets_the_same_table_as_rich_would_print(
    rows: list[tuple[str, int, None]],
) -> None:
    named = [dict(zip(("a_name", "at", "漢"), row, strict=True)) for row in rows]
    pages = []
    for quick in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not quick:
                patch.setattr(output, "_aligned", lambda _: [])
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                output.write_table(named)
        pages.append(out.getvalue())

    assert pages[0] == pages[1]


def test_very_many_rows_are_printed_without_a_layout_of_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    laid_out: list[object] = []
    monkeypatch.setattr(output, "_write_rich", lambda *rows, **_: laid_out.append(rows))
    output.write_table([{"id": number, "reason": "x" * 100} for number in range(500)])

    assert len(capsys.readouterr().out.splitlines()) == 501
    assert laid_out == []
    output.write_table([{"id": 1, "reason": "x" * 500}])
    output.write_table([{"id": 1, "lines": ("a", "b")}])
    assert len(laid_out) == 2


def test_a_dead_letter_with_a_hostile_reason_is_one_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = row_of(hostile_dead_letter())

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
