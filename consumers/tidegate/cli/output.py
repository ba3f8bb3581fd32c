"""Everything that the command prints goes through here, with control characters made visible.

Names of tables and files, reasons and messages come from others. Printed as they are, an escape
sequence could clear the screen or a line break forge a line of a dry run or of a log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import typer

from tidegate.monitoring.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_COLUMNS: Final = 400


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
    typer.echo(json.dumps(value, indent=indent))


def write_json_list(
    name: str, items: Iterable[object], rest: Callable[[], Mapping[str, object]]
) -> None:
    """Print a JSON object with a list, item by item as they come, a line each.

    Args:
        name: The list's.
        items: What is in it.
        rest: Gives the object's other fields, once the items are taken.
    """
    typer.echo(f"{{{json.dumps(name)}: [", nl=False)
    for number, item in enumerate(items):
        typer.echo(f"{',' if number else ''}\n{json.dumps(item)}", nl=False)
    fields = "".join(f", {json.dumps(key)}: {json.dumps(each)}" for key, each in rest().items())
    typer.echo(f"]{fields}}}")


def write_styled(*parts: tuple[str, str | None]) -> None:
    """Print parts, each with its style, as one line of any length."""
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.text import Text  # noqa: PLC0415

    line = Text()
    for text, style in parts:
        line.append(visible(text), style=style)
    Console().print(line, soft_wrap=True)


def write_table(rows: Sequence[Mapping[str, object]], *, lines: bool = False) -> None:
    """Print rows as a table under their keys; nothing if there are no rows.

    Args:
        rows: The rows; a sequence as a value is printed as lines of its cell.
        lines: Whether to draw lines between rows.
    """
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not rows:
        return
    table = Table(show_lines=True) if lines else Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(Text(visible(name.replace("_", " ")), style="bold"), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    # a pipe has no width of its own: rows that are folded there can't be searched
    Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS).print(table)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(map(visible, value))
    return visible(value)
