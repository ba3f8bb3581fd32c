"""`tidegate doctor`: check that a deployment has everything that the services need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import typer

from tidegate.cli.options import AsJsonLines, ConfigFile
from tidegate.cli.output import write_json, write_styled
from tidegate.errors import ConfigError
from tidegate.ops.doctor import Finding, Status, examine
from tidegate.service.assembly import SERVICES
from tidegate.service.settings import Settings

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


def doctor(
    services: Annotated[
        list[str] | None, typer.Argument(help="Services to check; default: all.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Create and remove a hidden file in each root.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start a Spark session and run a job.")
    ] = False,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """Check a deployment; every finding has advice. Exit code 1 if a check fails.

    Examples:
        tidegate doctor
        tidegate doctor restorer --write --spark --json
    """
    if unknown := [name for name in services or () if name not in SERVICES]:
        raise ConfigError(f"unknown service {unknown[0]!r}: choose from {', '.join(SERVICES)}")
    settings = Settings.load(config)
    found = examine(settings, services or list(SERVICES), write=write, spark=spark)
    if as_json:
        seen = list(_written(found))
    else:
        seen = list(found)
        _show(seen)
    raise typer.Exit(1 if any(finding.state is Status.FAIL for finding in seen) else 0)


def _written(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Print each finding for scripts as it comes, and pass it on."""
    for finding in findings:
        write_json(finding)
        yield finding


def _show(findings: Sequence[Finding]) -> None:
    """Print failures first; of several well checks of a kind, one line."""
    for state in (Status.FAIL, Status.WARN, Status.SKIPPED, Status.OK):
        groups: dict[str, list[Finding]] = {}
        for finding in findings:
            if finding.state is state:
                kind = finding.check.partition(" ")[0] if state is Status.OK else finding.check
                groups.setdefault(kind, []).append(finding)
        for kind, group in groups.items():
            folded = group[1:] and state is Status.OK
            names = ", ".join(finding.check.removeprefix(f"{kind} ") for finding in group)
            seen = names if folded else group[0].seen
            advice = f" -> {group[0].advice}" if group[0].advice else ""
            write_styled(
                (f"{state:8}", _COLOURS[state]),
                (kind if folded else group[0].check, "bold"),
                (f": {seen}{advice}", None),
            )
