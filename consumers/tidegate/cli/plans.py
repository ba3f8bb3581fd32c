"""`tidegate plan`: what would be done to a table now. Nothing is changed or published."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import AsJson, ConfigFile, Location, read_event, table_of
from tidegate.cli.output import write, write_json
from tidegate.cli.plan_file import PlanFile
from tidegate.cli.progress import under_way
from tidegate.service.settings import Settings

plan = typer.Typer(help="Dry runs: what would be done to a table.", no_args_is_help=True)


@plan.command()
def restore(
    location: Location,
    savepoint: Annotated[
        str,
        typer.Option(help="The savepoint to return to: an instant, latest, or latest~1 ..."),
    ],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Its name, for the plan's file.")
    ] = None,
    out: Annotated[
        typer.FileTextWrite | None,
        typer.Option(help="Write the plan to this file, for: publish restore --plan."),
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what a restore would delete. Exit code 1 if it would be refused."""
    from tidegate.restores import plan_restore  # noqa: PLC0415 - reads tables
    from tidegate.savepoints.listing import chosen_savepoint  # noqa: PLC0415
    from tidegate.service.assembly import table_work  # noqa: PLC0415
    from tidegate.service.restore_rules import restore_settings, restored_by_hudi  # noqa: PLC0415

    settings = Settings.load(config)
    warehouse, _ = table_work(settings)
    by_hudi = restored_by_hudi(settings, table, location)
    with under_way(f"reading {location}"):
        chosen = chosen_savepoint(warehouse, location, savepoint)
        liveness = restore_settings(settings)
        planned = plan_restore(warehouse, location, chosen, liveness, by_hudi=by_hudi)
    plan = PlanFile(
        table=table_of(table),
        location=location,
        savepoint=planned.savepoint,
        plan_id=planned.plan_id,
        instants=tuple(f"{target.action} {target.timestamp}" for target in planned.targets),
        files=planned.files,
        bytes=planned.bytes,
        resumes=planned.resumes,
    )
    if out is not None:
        out.write(plan.model_dump_json(indent=2) + "\n")
    fields: dict[str, Any] = {
        "savepoint": plan.savepoint,
        "plan_id": plan.plan_id,
        "instants": list(plan.instants),
        "files": plan.files,
        "bytes": plan.bytes,
        "resumes": plan.resumes,
        "locks_looked_at": liveness.checked_locks,
    }
    if by_hudi:
        fields["carried_out_by"] = "Hudi's rollback_to_savepoint"
    if as_json:
        fields["nothing_to_do"] = plan.is_empty
    _show(fields, [file.path for step in planned.steps for file in step.files], as_json=as_json)
    if plan.is_empty and not as_json:
        write(f"nothing to do: {plan.savepoint} is the table's newest commit")


@plan.command()
def savepoint_removal(
    location: Location,
    savepoint: Annotated[str, typer.Option(help="The savepoint: an instant, latest, latest~1 ...")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what removing a savepoint would free. Exit code 1 if it would be refused.

    The files stay until Hudi's own cleaner removes them.
    """
    from tidegate.savepoints.freeing import plan_freeing  # noqa: PLC0415 - reads tables
    from tidegate.savepoints.listing import chosen_savepoint  # noqa: PLC0415
    from tidegate.service.assembly import table_work  # noqa: PLC0415

    warehouse, parallel_map = table_work(Settings.load(config))
    chosen = chosen_savepoint(warehouse, location, savepoint)
    planned = plan_freeing(warehouse, location, chosen, parallel_map)
    fields: dict[str, Any] = {
        "savepoint": chosen,
        "requested_by": planned.made_by,
        "policy": planned.mark.policy if planned.mark else None,
        "tiers": list(planned.mark.tiers) if planned.mark else [],
        "files": planned.files,
        "freed_files": len(planned.freed),
        "freed_bytes": planned.freed_bytes,
    }
    if as_json:
        write_json({**fields, "paths": list(planned.timeline_files), "freed": list(planned.freed)})
        return
    _show(fields, list(planned.timeline_files), as_json=False)
    for path in planned.freed:
        write(f"  Hudi may clean {path}")


@plan.command()
def clean(
    vacuum: Annotated[Path, typer.Argument(help="VacuumFinished as JSON; - for standard input.")],
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show what would be removed once a vacuum's holds are gone. Exit code 1 if refused."""
    from tidegate.cleaning import Cleaner  # noqa: PLC0415 - reads tables
    from tidegate.coordinator.readers import command_for  # noqa: PLC0415
    from tidegate.events import VacuumFinished  # noqa: PLC0415
    from tidegate.service.assembly import table_work  # noqa: PLC0415

    event = read_event(VacuumFinished, vacuum)
    warehouse, parallel_map = table_work(Settings.load(config))
    now = datetime.now(UTC)
    with under_way(f"reading {event.location}"):
        planned = Cleaner(warehouse, parallel_map, lambda: now).plan(command_for(event, now))
    fields: dict[str, Any] = {"table": event.table}
    fields |= {"files": planned.files, "bytes": planned.bytes}
    if planned.superseded_by:
        fields["superseded_by"] = list(planned.superseded_by)
    _show(fields, list(planned.directories), as_json=as_json)


def _show(fields: Mapping[str, Any], paths: list[str], *, as_json: bool) -> None:
    if as_json:
        write_json({**fields, "paths": paths})
        return
    for name, value in fields.items():
        write(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    for path in paths:
        write(f"  would remove {path}")
