"""`tidegate doctor`: is all there that the services need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidegate.cli.options import ConfigFile
from tidegate.errors import ConfigError
from tidegate.settings import Settings

if TYPE_CHECKING:
    from tidegate.doctor import Finding

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


def doctor(
    services: Annotated[
        list[str] | None, typer.Argument(help="Whose offsets and rights; default: all.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Make and remove a hidden file in each root.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start a Spark session and run a job.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: ConfigFile = None,
) -> None:
    """Check a deployment: what was seen, and what to do. Exit code 1 if a check fails."""
    from tidegate.doctor import Extras, State, examine  # noqa: PLC0415 - heavy
    from tidegate.services import SERVICES  # noqa: PLC0415 - heavy

    if unknown := [name for name in services or () if name not in SERVICES]:
        raise ConfigError(f"there is no service {unknown[0]!r}; there are {', '.join(SERVICES)}")
    settings = Settings.load(config)
    found = examine(settings, services or list(SERVICES), Extras(write=write, spark=spark))
    seen = list(found if as_json else _shown(found))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in seen], indent=2))
    raise typer.Exit(1 if any(each.state is State.FAIL for each in seen) else 0)


def _shown(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Print each finding as it comes, and pass it on."""
    from rich.console import Console  # noqa: PLC0415 - heavy
    from rich.text import Text  # noqa: PLC0415 - heavy

    console = Console()
    for each in findings:
        line = Text.assemble(
            (f"{each.state:8}", _COLOURS[each.state]), (each.check, "bold"), f": {each.seen}"
        )
        if each.advice:
            line.append(f" -> {each.advice}")
        # one line a finding, also where it is longer than the terminal is wide
        console.print(line, soft_wrap=True)
        yield each
