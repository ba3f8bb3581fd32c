"""Everything that the command prints goes through here, with control characters made visible.

Names of tables and files, reasons and messages come from others. Printed as they are, an escape
sequence could clear the screen or a line break forge a line of a dry run or of a log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from tidegate.monitoring.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_COLUMNS: Final = 400
_GAP: Final = 2
"""Blanks between two columns."""
_COLUMN: Final = 12
"""Characters of a column below which a table is hard to read."""


def write(line: object) -> None:
    """Print a line."""
    typer.echo(visible(line))


def clear_screen() -> None:
    """Clear the terminal before the next picture; a pipe gets the pictures one below the other."""
    from rich.console import Console  # noqa: PLC0415 - heavy

    Console().clear()  # it does nothing where there is no terminal


def is_terminal(*, error: bool = False) -> bool:
    """Whether a person sees what is printed, or printed on standard error."""
    return (sys.stderr if error else sys.stdout).isatty()


def error_console() -> Console:
    """Standard error, for what rich draws there: nothing of it may come from others unescaped."""
    from rich.console import Console  # noqa: PLC0415 - heavy

    return Console(stderr=True)


def write_error(line: str) -> None:
    """Print a line on standard error, after the command's name."""
    typer.echo(f"tidegate: {visible(' '.join(line.split()))}", err=True)


def write_json(value: object, indent: int | None = None) -> None:
    """Print JSON; it is ASCII, with every other character escaped."""
    typer.echo(json.dumps(value, indent=indent, default=plain))


def plain(value: Any) -> object:  # noqa: ANN401 - json.dumps passes what it does not know
    """A time, an event or a dataclass as JSON has it; times have milliseconds."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.model_dump(mode="json")


def write_json_lines(items: Iterable[object]) -> None:
    """Print a list for scripts: a JSON object a line, each as it comes; nothing of an empty one."""
    for item in items:
        write_json(item)


def write_styled(*parts: tuple[str, str | None]) -> None:
    """Print parts, each with its style, as one line of any length."""
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.text import Text  # noqa: PLC0415

    line = Text()
    for text, style in parts:
        line.append(visible(text), style=style)
    Console().print(line, soft_wrap=True)


def write_rows(rows: Iterable[Mapping[str, object]], nothing: str, *, as_json: bool) -> None:
    """Print rows as JSON lines or as a table. Without rows, print `nothing` instead of a table."""
    if as_json:
        write_json_lines(rows)
        return
    listed = [{name: "-" if cell is None else cell for name, cell in row.items()} for row in rows]
    write_table(listed)
    if not listed:
        write(nothing)


def write_table(rows: Sequence[Mapping[str, object]], *, lines: bool = False) -> None:
    """Print rows as a table under their keys; nothing if there are no rows.

    On a terminal that is too narrow for the columns, each row is printed as lines.

    Args:
        rows: The rows; a sequence as a value is printed as lines of its cell.
        lines: Whether to draw lines between rows.
    """
    if not rows:
        return
    if not is_terminal() and not lines and (aligned := _aligned(rows)):
        typer.echo("\n".join(aligned))
        return
    _write_rich(rows, lines=lines)


def _aligned(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Rows as lines with aligned columns; nothing if a row is too wide, or needs several lines.

    As rich would print them, many times faster: a pipe may get very many.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - heavy

    names = [visible(name.replace("_", " ")) for name in rows[0]]
    cells = [names, *([_cell(value) for value in row.values()] for row in rows)]
    if any("\n" in cell for row in cells for cell in row):
        return []
    lengths = [[cell_len(cell) for cell in row] for row in cells]
    widths = [max(column) for column in zip(*lengths, strict=True)]
    if sum(widths) + _GAP * (len(widths) - 1) > _PIPE_COLUMNS:
        return []
    return [
        (" " * _GAP).join(
            cell + " " * (width - length)
            for cell, width, length in zip(row, widths, taken, strict=True)
        )
        for row, taken in zip(cells, lengths, strict=True)
    ]


def _write_rich(rows: Sequence[Mapping[str, object]], *, lines: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # a pipe has no width of its own: rows that are folded there can't be searched
    console = Console(width=None if is_terminal() else _PIPE_COLUMNS)
    if console.width < _COLUMN * len(rows[0]):
        _write_blocks(rows)
        return
    table = Table(show_lines=True) if lines else Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(Text(visible(name.replace("_", " ")), style="bold"), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console.print(table)


def _write_blocks(rows: Sequence[Mapping[str, object]]) -> None:
    """Rows for a narrow terminal, a line a value: the terminal wraps them, and none is cut."""
    for number, row in enumerate(rows):
        if number:
            write("")
        for name, value in row.items():
            if (text := _cell(value)) not in {"", "None"}:
                write(f"{name.replace('_', ' ')}: {', '.join(text.splitlines())}")


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(map(visible, value))
    return visible(value)
