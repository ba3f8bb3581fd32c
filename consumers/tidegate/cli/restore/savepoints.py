"""`tidegate savepoints`: the savepoints of a table, from its own timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.cli.deployment import located
from tidegate.cli.look.waiting import age_of
from tidegate.cli.options import (
    AsJsonLines,
    ConfigFile,
    Location,
    Reason,
    TableName,
    option_group,
    table_of,
)
from tidegate.cli.output import write_rows
from tidegate.cli.sending import Requesting, request
from tidegate.errors import ConfigError
from tidegate.publisher import Publisher, Receipt
from tidegate.savepoints.listing import savepoints_of
from tidegate.service.assembly import savepoint_policy, table_work
from tidegate.service.settings import Settings

savepoints = typer.Typer(help="The savepoints of a Hudi table.", no_args_is_help=True)


@savepoints.callback()
def _group() -> None:
    """The savepoints of a Hudi table."""  # without a callback typer makes `list` the command


@savepoints.command("list")
def list_savepoints(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="TABLE | LOCATION",
            help="catalog.database.table, or for a table that no event names its path or URI.",
        ),
    ],
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="The name of the table at a location.")
    ] = None,
    pins: Annotated[
        bool, typer.Option("--pins", help="List the table too: what only savepoints keep.")
    ] = False,
    as_json: AsJsonLines = False,
    config: ConfigFile = None,
) -> None:
    """List the savepoints of a table, oldest first, with requester, time and reason.

    A policy's savepoints expire at the end of their lifetime at the latest; the newest of a tier
    never does.
    Savepoints that no rule of the table owns stay: `adopts` in its rule takes them over, and
    `tidegate savepoints remove` requests their removal.

    Examples:
        tidegate savepoints list lake.sales.orders
        tidegate savepoints list lake.sales.orders --pins
        tidegate savepoints list /lake/sales/new
    """
    settings = Settings.load(config)
    warehouse, parallel_map = table_work(settings)
    is_location = "/" in subject
    name = table_of(table if is_location else subject)
    location = located(settings, name, subject if is_location else None)
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
            "unowned": listed.is_unowned(rule) if name else None,
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
    write_rows(rows, f"{location} has no savepoint", as_json=as_json)


@savepoints.command()
@option_group(Requesting)
def remove(
    asking: Requesting,
    table: TableName,
    policy: Annotated[str, typer.Option(help="The policy that made them; no rule may own it.")],
    reason: Reason,
    location: Location = None,
    config: ConfigFile = None,
) -> None:
    """Request the removal of all savepoints of a policy that no rule of the table owns.

    They stay otherwise. To keep them and let a rule end them, name the policy in its `adopts`.

    Examples:
        tidegate savepoints remove -t lake.sales.orders --policy orders
            --reason 'the policy was renamed' --wait
    """
    settings = Settings.load(config)
    warehouse, _ = table_work(settings)
    name, where = table_of(table) or table, located(settings, table, location)
    rule = savepoint_policy(settings).rule_of(name)
    found = [
        listed.instant
        for listed in savepoints_of(warehouse, where)
        if listed.is_unowned(rule) and listed.mark and listed.mark.policy == policy
    ]
    if not found:
        raise ConfigError(f"{where} has no savepoint of {policy}, or a rule of {name} owns it")
    codes = list[int]()
    for instant in found:

        def ask(publisher: Publisher, instant: str = instant) -> Receipt:
            return publisher.request_savepoint_removal(
                table=name,
                location=where,
                instant=instant,
                reason=reason,
                requested_by=asking.person,
                request_id=asking.request_id and f"{asking.request_id}-{instant}",
            )

        try:
            request(config, asking, name, ask)
        except typer.Exit as answered:
            codes.append(answered.exit_code)
    raise typer.Exit(max(codes, default=0))
