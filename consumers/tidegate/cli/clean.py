"""`tidegate hold` and `tidegate undo`: pause the cleaning of a table, and undo a cleaning."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import abbreviated_ids, option_group, person, table_of, table_pattern
from tidegate.cli.output import write, write_error, write_json
from tidegate.cli.sending import Requesting, Sending, request
from tidegate.errors import TidegateError
from tidegate.ops.waiting import find_cleaning, gate_stores, held_line, held_tables, removable_line
from tidegate.publisher import Publisher
from tidegate.service.settings import Settings

hold = typer.Typer(
    help="Pause and resume the cleaning of tables. These holds are not readers' locks.",
    no_args_is_help=True,
)


@hold.command()
@option_group(Requesting)
def add(
    asking: Requesting, table: Annotated[str, typer.Argument(metavar="TABLE")], reason: str
) -> None:
    """Pause the cleaning of a table until the hold is removed.

    After the outcome CleaningHeld (--wait) no cleaning of the table starts, including cleanings in
    the cleaner's queue. A cleaning that is moving or deleting directories finishes its round. A
    table has one hold: a second one replaces the first.

    Positional:
        table: catalog.database.table

    Examples:
        tidegate hold add lake.sales.orders --reason 'the report is stuck' --wait
    """
    name = table_of(table) or ""
    for before in _holds_on(name, asking.config) or ():
        write_error(f"note: if it is accepted, this replaces a hold: {held_line(before)}")
    request(asking, name, Publisher.hold_cleaning, reason=reason)


@hold.command()
@option_group(Requesting)
def remove(
    asking: Requesting, table: Annotated[str, typer.Argument(metavar="TABLE")], reason: str
) -> None:
    """Resume the cleaning of a table, including cleanings that were requested during the hold.

    Positional:
        table: catalog.database.table

    Examples:
        tidegate hold remove lake.sales.orders --reason 'it is done' --wait
    """
    name = table_of(table) or ""
    if _holds_on(name, asking.config) == []:
        write_error(f"note: {name} is not on hold, as far as the coordinator has read")
    request(asking, name, Publisher.release_hold, reason=reason)


def _holds_on(table: str, config: Path | None) -> list[dict[str, Any]] | None:
    """The hold on a table; None: a person need not have the right to read the rows."""
    settings = Settings.load(config)
    try:
        return [hold for store in gate_stores(settings, table) for hold in held_tables(store)]
    except TidegateError:
        return None


@hold.command("list")
def list_holds(table: str | None = None, as_json: bool = False, config: Path | None = None) -> None:
    """Show the tables on hold, with person, time and reason, as far as the coordinator has read.

    Options:
        table: A name, or a pattern like 'lake.s.*'.

    Examples:
        tidegate hold list --table 'lake.sales.*'
    """
    pattern = None if table is None else table_pattern(table)
    settings = Settings.load(config)
    found = [hold for store in gate_stores(settings, pattern) for hold in held_tables(store)]
    found.sort(key=itemgetter("since", "table"))
    if as_json:
        write_json(found)
        return
    for hold in found:
        write(settings.security.suggested(removable_line(hold)))
    if not found:
        write("no table is on hold")


@option_group(Sending)
def undo(
    sending: Sending,
    subject: Annotated[str, typer.Argument(metavar="TABLE | EVENT_ID")],
    reason: str,
    execute: bool = False,
    requested_by: str | None = None,
) -> None:
    """Put back the directories that a cleaning moved into quarantine, while they are there.

    Without --execute only the plan is made. The cleaner makes it, and refuses what could show a
    row twice, or what is not complete any more. With --wait the exit code is the outcome's. Hold
    the table first (`tidegate hold add`) if its next cleaning is not to take it again.

    Positional:
        subject: A table: its newest cleaning; or the id of a vacuum, a cleaning or its start.

    Examples:
        tidegate undo lake.sales.orders --reason 'the report had stalled' --wait
        tidegate undo 95c3731d --reason 'the report had stalled' --execute --wait
    """
    [named] = abbreviated_ids((subject,))
    found = find_cleaning(Settings.load(sending.config), named)
    if not execute:
        write_error("a plan only; --execute puts it back")
    request(
        sending,
        found.table,
        Publisher.request_undo,
        location=found.location,
        partition=found.partition,
        cleaning=found.cleaning,
        requested_by=person(requested_by),
        reason=reason,
        plan_only=not execute,
    )
