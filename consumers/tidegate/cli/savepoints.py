"""`tidegate savepoints`: the savepoints of a table, from its own timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.cli.options import AsJsonLines, ConfigFile, table_of
from tidegate.cli.output import write, write_json, write_table
from tidegate.cli.waiting import age_of
from tidegate.service.settings import Settings

savepoints = typer.Typer(help="The savepoints of a Hudi table.", no_args_is_help=True)


@savepoints.callback()
def _group() -> None:
    """The savepoints of a Hudi table."""  # without a callback typer makes `list` the command


@savepoints.command("list")
def list_savepoints(
    location: Annotated[str, typer.Argument(help="Path or URI of the table, below a root.")],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Its name: shows when its policy ends them.")
    ] = None,
    pins: Annotated[
        bool, typer.Option("--pins", help="List the table too: what only savepoints keep.")
    ] = False,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """List the savepoints of a table, oldest first, with requester, time and reason.

    A policy's expire at the end of their lifetime at the latest, the newest of each tier never.
    """
    from tidegate.savepoints.listing import savepoints_of  # noqa: PLC0415 - reads tables
    from tidegate.service.assembly import savepoint_policy, table_work  # noqa: PLC0415

    settings = Settings.load(config)
    warehouse, parallel_map = table_work(settings)
    name = table_of(table)
    rule = savepoint_policy(settings).rule_of(name) if name else None
    now = datetime.now(UTC)
    rows = [
        {
            "savepoint": listed.instant,
            "state": listed.state,
            "requested_by": listed.by,
            "at": listed.at.isoformat(timespec="seconds") if listed.at else None,
            "age": age_of(now - listed.at) if listed.at else None,
            "policy": listed.mark.policy if listed.mark else None,
            "tiers": ",".join(listed.mark.tiers) if listed.mark and listed.mark.tiers else None,
            "expires": expires.isoformat(timespec="seconds") if expires else None,
            "files": listed.files,
        }
        | (
            {"pinned_files": listed.pinned_files, "pinned_bytes": listed.pinned_bytes}
            if pins
            else {}
        )
        | {"comment": listed.comment}
        for listed in savepoints_of(warehouse, location, parallel_map if pins else None)
        for expires in (listed.expires_at(rule),)
    ]
    if as_json:
        for row in rows:
            write_json(row)
        return
    write_table([{name: "-" if v is None else v for name, v in row.items()} for row in rows])
    if not rows:
        write(f"{location} has no savepoint")
