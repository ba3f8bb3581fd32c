"""Options and input that several subcommands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from tidegate.errors import ConfigError
from tidegate.events import Event

E = TypeVar("E", bound=Event)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Settings (TOML); TIDEGATE_CONFIG names it too."),
]
TableName = Annotated[str, typer.Option("--table", "-t", help="catalog.database.table")]
Location = Annotated[str, typer.Option("--location", "-l", help="Path or URI of the table.")]
"""Where the table lies."""


def read_event(kind: type[E], file: Path) -> E:
    """Read an event from a JSON file, or from standard input where the file is `-`.

    Raises:
        ConfigError: the file can't be read, or the event's model refuses what is in it.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"{file}: {problems(error)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error


def problems(error: ValidationError) -> str:
    """What a model refuses, in one sentence."""
    told = (
        f"{'.'.join(map(str, each['loc'])) or 'event'}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_input=False)
    )
    return f"{error.title} refused: {'; '.join(told)}"
