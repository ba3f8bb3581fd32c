"""`tidegate hold`: stop the cleaning of a table, and let it go on."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from tidegate.cli.options import (
    AsJson,
    ConfigFile,
    RequestedBy,
    option_group,
    table_of,
    table_pattern,
)
from tidegate.cli.output import write, write_json
from tidegate.cli.publishing import RequestId, Sending, request
from tidegate.publisher import Publisher, Receipt
from tidegate.service.settings import Settings

hold = typer.Typer(
    help="Stop the cleaning of tables, and let it go on. These are no locks of readers.",
    no_args_is_help=True,
)
Table = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.database.table")]
Because = Annotated[str, typer.Option(help="Why, for the audit trail and for the others.")]


@hold.command()
@option_group(Sending)
def add(
    sending: Sending,
    table: Table,
    because: Because,
    requested_by: RequestedBy = None,
    request_id: RequestId = None,
    config: ConfigFile = None,
) -> None:
    """Clean nothing of a table until the hold is removed.

    Once the outcome CleaningHeld is there (--wait), no cleaning of the table begins, one that
    waited in the cleaner's queue neither; one that is moving or deleting directories at this moment
    ends its round. A table has one hold: a second one replaces the first.
    """
    name = table_of(table) or ""

    def send(publisher: Publisher) -> Receipt:
        return publisher.hold_cleaning(
            table=name,
            requested_by=requested_by or getpass.getuser(),
            reason=because,
            request_id=request_id,
        )

    request(config, sending, name, send, again=request_id is not None)


@hold.command()
@option_group(Sending)
def remove(
    sending: Sending,
    table: Table,
    because: Because,
    requested_by: RequestedBy = None,
    request_id: RequestId = None,
    config: ConfigFile = None,
) -> None:
    """Clean a table again. What was asked for while it was held is done now."""
    name = table_of(table) or ""

    def send(publisher: Publisher) -> Receipt:
        return publisher.release_hold(
            table=name,
            requested_by=requested_by or getpass.getuser(),
            reason=because,
            request_id=request_id,
        )

    request(config, sending, name, send, again=request_id is not None)


@hold.command("list")
def list_holds(
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="A name, or a pattern like 'lake.s.*'.")
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show who holds which table since when, and why; as far as the reader gate has read."""
    from tidegate.ops.waiting import HeldTable, gate_stores, holds_and_quarantines  # noqa: PLC0415 - heavy

    pattern = None if table is None else table_pattern(table)
    found = [
        each
        for store in gate_stores(Settings.load(config), pattern)
        for each in holds_and_quarantines(store)
        if isinstance(each, HeldTable)
    ]
    found.sort(key=lambda each: (each.since, each.table))
    if as_json:
        write_json([each.as_json() for each in found])
        return
    for each in found:
        write(str(each))
    if not found:
        write("nobody holds a table")
