"""`tidegate hold`: stop the cleaning of a table, and let it go on."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.options import AsJson, ConfigFile, Reason, option_group, table_of, table_pattern
from tidegate.cli.output import write, write_json
from tidegate.cli.sending import Requesting, request
from tidegate.ops.waiting import HeldTable, gate_stores, holds_and_quarantines
from tidegate.publisher import Publisher
from tidegate.service.settings import Settings

hold = typer.Typer(
    help="Pause and resume the cleaning of tables. These holds are not readers' locks.",
    no_args_is_help=True,
)
Table = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.database.table")]


@hold.command()
@option_group(Requesting)
def add(asking: Requesting, table: Table, reason: Reason, config: ConfigFile = None) -> None:
    """Pause the cleaning of a table until the hold is removed.

    After the outcome CleaningHeld (--wait) no cleaning of the table starts, including cleanings in
    the cleaner's queue. A cleaning that is moving or deleting directories finishes its round. A
    table has one hold: a second one replaces the first.

    Examples:
        tidegate hold add lake.sales.orders --reason 'the report is stuck' --wait
    """
    request(config, asking, table_of(table) or "", Publisher.hold_cleaning, reason=reason)


@hold.command()
@option_group(Requesting)
def remove(asking: Requesting, table: Table, reason: Reason, config: ConfigFile = None) -> None:
    """Resume the cleaning of a table, including cleanings that were requested during the hold.

    Examples:
        tidegate hold remove lake.sales.orders --reason 'it is done' --wait
    """
    request(config, asking, table_of(table) or "", Publisher.release_hold, reason=reason)


@hold.command("list")
def list_holds(
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="A name, or a pattern like 'lake.s.*'.")
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show the tables on hold, with person, time and reason, as far as the coordinator has read.

    Examples:
        tidegate hold list --table 'lake.sales.*'
    """
    pattern = None if table is None else table_pattern(table)
    found = [
        table_hold
        for store in gate_stores(Settings.load(config), pattern)
        for table_hold in holds_and_quarantines(store)
        if isinstance(table_hold, HeldTable)
    ]
    found.sort(key=lambda table_hold: (table_hold.since, table_hold.table))
    if as_json:
        write_json(found)
        return
    for table_hold in found:
        write(str(table_hold))
    if not found:
        write("no table is on hold")
