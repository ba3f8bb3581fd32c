"""All commands of `tidegate`, and the examples at the end of their help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer

from tidegate.cli import app


def _commands(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's
    for name, command in getattr(found, "commands", {}).items():
        yield from _commands(command, f"{path}{name} ")
    if not hasattr(found, "commands"):
        yield path.strip(), found


def _examples(command: Any) -> list[str]:  # noqa: ANN401 - typer's
    text = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in text.splitlines()]


ALL: Final = dict(_commands(typer.main.get_command(app)))
EXAMPLES: Final = {name: _examples(command) for name, command in ALL.items()}
