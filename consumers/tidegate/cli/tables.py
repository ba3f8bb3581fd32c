"""Rows of values on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

_WIDE: Final = 400


def show_table(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a table under the names of their values; nothing where there are none."""
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(value)) for value in row.values()))
    # a pipe has no width of its own: rows that are folded there can't be searched
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)
