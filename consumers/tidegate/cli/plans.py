"""`tidegate plan`: what would be done to a table now. Nothing is changed, nothing published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import ConfigFile, Location, read_event
from tidegate.errors import TidegateError
from tidegate.settings import Settings

plan = typer.Typer(help="What would be done: the dry run.", no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


@plan.command()
def restore(
    location: Location,
    savepoint: Annotated[str, typer.Option(help="The savepoint to return to.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what a restore would delete. Exit code 1 if it would be refused."""
    from tidegate.restores import PlannedRestore, plan_restore  # noqa: PLC0415 - needs fsspec
    from tidegate.services.assembly import table_work  # noqa: PLC0415

    warehouse, _ = table_work(Settings.load(config))
    planned = plan_restore(warehouse, location, savepoint)
    if not isinstance(planned, PlannedRestore):
        raise TidegateError(f"{planned.reason}: {planned.message}")
    instants = [f"{each.action} {each.timestamp}" for each in planned.targets]
    told = {
        "savepoint": planned.savepoint,
        "plan_id": planned.plan_id,
        "instants": instants,
        "files": planned.files,
        "bytes": planned.bytes,
        "resumes": planned.resumes,
    }
    _show(told, [file.path for step in planned.steps for file in step.files], as_json=as_json)


@plan.command()
def clean(
    vacuum: Annotated[Path, typer.Argument(help="JSON of the VacuumFinished event.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what would be removed once a vacuum's holds are gone. Exit code 1 if refused."""
    from tidegate.cleaning import Cleaner, CleaningPlan, command_for  # noqa: PLC0415 - needs fsspec
    from tidegate.events import VacuumFinished  # noqa: PLC0415
    from tidegate.services.assembly import table_work  # noqa: PLC0415

    event = read_event(VacuumFinished, vacuum)
    warehouse, fan_out = table_work(Settings.load(config))
    now = datetime.now(UTC)
    planned = Cleaner(warehouse, fan_out, lambda: now).plan(command_for(event, now))
    if not isinstance(planned, CleaningPlan):
        raise TidegateError(f"{planned.reason}: {planned.message}")
    told = {"table": event.table, "files": planned.files, "bytes": planned.bytes}
    _show(told, list(planned.directories), as_json=as_json)


def _show(told: Mapping[str, Any], paths: list[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**told, "paths": paths}))
        return
    for name, value in told.items():
        typer.echo(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    for path in paths:
        typer.echo(f"  would remove {path}")
