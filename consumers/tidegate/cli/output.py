"""Everything that the command prints goes through here, with control characters made visible.

Names of tables and files, reasons and messages come from others. Printed as they are, an escape
sequence could clear the screen or a line break forge a line of a dry run or of a log.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, Final

import typer

from tidegate.monitoring.visible import visible

_GAP: Final = 2
"""Blanks between two columns."""
_NARROWEST: Final = 20
"""Characters into which the last column of a table is folded at most."""


def write(line: object) -> None:
    """Print a line."""
    typer.echo(visible(line))


def clear_screen() -> None:
    """Clear the terminal; a pipe is left as it is."""
    from rich.console import Console  # noqa: PLC0415 - heavy

    Console().clear()


def is_terminal() -> bool:
    """Whether a person sees what is printed."""
    return sys.stdout.isatty()


def write_error(line: str) -> None:
    """Print a line on standard error, after the command's name."""
    typer.echo(f"tidegate: {visible(' '.join(line.split()))}", err=True)


def write_json(value: object, indent: int | None = None) -> None:
    """Print JSON; it is ASCII, with every other character escaped."""
    typer.echo(json.dumps(value, indent=indent, default=plain))


def plain(value: Any) -> object:  # noqa: ANN401 - json.dumps passes what it does not know
    """A time, an event or a dataclass as JSON has it; times have milliseconds."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if (row := getattr(value, "row", None)) is not None:
        return row
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.model_dump(mode="json")


def write_json_lines(items: Iterable[object]) -> None:
    """Print a list for scripts: a JSON object a line, each as it comes; nothing of an empty one."""
    for item in items:
        write_json(item)


def write_styled(*parts: tuple[str, str | None]) -> None:
    """Print parts, each with its style, bold or a colour, as one line of any length."""
    line = ""
    for text, style in parts:
        bold = style == "bold"
        line += typer.style(visible(text), fg=None if bold else style, bold=bold or None)
    # a pipe gets no colour anyway
    typer.echo(line, color=False if os.environ.get("NO_COLOR") else None)


def write_rows(rows: Iterable[Mapping[str, object]], nothing: str, *, as_json: bool) -> None:
    """Print rows as JSON lines or as a table. Without rows, print `nothing` instead of a table."""
    if as_json:
        write_json_lines(rows)
        return
    listed = list(rows)
    write_table(listed)
    if not listed:
        write(nothing)


def write_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a table under their keys; nothing if there are no rows.

    On a terminal the last column is folded. If that leaves too little room, the rows are printed
    as lines. In a pipe every row is one line, so that it can be searched.
    """
    if not rows:
        return
    cells = [[visible(name.replace("_", " ")) for name in rows[0]]]
    cells += [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    left, room = sum(widths[:-1]) + _GAP * len(widths[1:]), widths[-1]
    if is_terminal():
        columns = os.environ.get("COLUMNS", "")
        room = (int(columns) if columns.isdigit() else os.get_terminal_size().columns) - left
    if room < min(widths[-1], _NARROWEST):
        write_blocks(rows)
        return
    for row in cells:
        start = ""
        for cell, width in zip(row[:-1], widths, strict=False):
            start += cell + " " * (width - _width(cell) + _GAP)
        folded = wrap(row[-1], room) if _width(row[-1]) > room else [row[-1]]
        for line in folded:
            typer.echo(f"{start}{line}".rstrip())
            start = " " * left


def write_blocks(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as lines, one for each value; the terminal wraps them, and none is cut."""
    for number, row in enumerate(rows):
        if number:
            write("")
        for name, value in row.items():
            if (text := _cell(value)) not in {"", "-"}:
                write(f"{name.replace('_', ' ')}: {text}")


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - heavy

    return cell_len(text)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(visible, value))
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return "-" if value is None else visible(value)
