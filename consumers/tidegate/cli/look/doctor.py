"""`tidegate doctor`: check that a deployment has everything that the services need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from tidegate.cli.output import write_json, write_styled
from tidegate.errors import ConfigError
from tidegate.ops.doctor import Finding, examine
from tidegate.service.assembly import SERVICES
from tidegate.service.settings import Settings

_COLOURS: Final = {"fail": "red", "warn": "yellow", "skipped": "bright_black", "ok": "green"}


def doctor(
    services: list[str] | None = None,
    write: bool = False,
    spark: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Check a deployment; every finding has advice. Exit code 1 if a check fails.

    A service that does not run is a warning, so that the doctor can be asked before the first
    start. `tidegate status` exits with 1 then.

    Positional:
        services: Services to check; default: all.

    Options:
        write: Create and remove a hidden file in each root.
        spark: Start a Spark session and run a job.
        as_json: Print a JSON object a line, for scripts.

    Examples:
        tidegate doctor
        tidegate doctor restorer --write --spark --json
    """
    if unknown := [name for name in services or () if name not in SERVICES]:
        raise ConfigError(f"unknown service {unknown[0]!r}: choose from {', '.join(SERVICES)}")
    found = examine(Settings.load(config), services or list(SERVICES), write=write, spark=spark)
    seen = list[Finding]()
    for finding in found:
        seen.append(finding)
        if as_json:
            write_json(finding._asdict())
    if not as_json:
        _show(seen)
    raise typer.Exit(any(finding.state == "fail" for finding in seen))


def _show(findings: Sequence[Finding]) -> None:
    """Print failures first; of several well checks of a kind, one line."""
    for state, colour in _COLOURS.items():
        groups: dict[str, list[Finding]] = {}
        for finding in findings:
            if finding.state == state:
                kind = finding.check.partition(" ")[0] if state == "ok" else finding.check
                groups.setdefault(kind, []).append(finding)
        for kind, group in groups.items():
            first, check = group[0], kind
            seen = f"{first.seen} -> {first.advice}" if first.advice else first.seen
            if not group[1:]:
                check = first.check
            elif state == "ok":
                seen = ", ".join(finding.check.removeprefix(f"{kind} ") for finding in group)
            write_styled((f"{state:8}", colour), (check, "bold"), (f": {seen}", None))
