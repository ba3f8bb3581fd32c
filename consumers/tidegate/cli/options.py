"""Options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Settings (TOML); TIDEGATE_CONFIG names it too."),
]
TableName = Annotated[str, typer.Option("--table", "-t", help="catalog.database.table")]
Location = Annotated[str, typer.Option("--location", "-l", help="Path or URI of the table.")]
"""Where the table lies."""
