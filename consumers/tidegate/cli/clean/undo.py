"""`tidegate undo`: put back the directories that a cleaning moved into quarantine."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.options import ConfigFile, Execute, Reason, RequestedBy, option_group, person
from tidegate.cli.output import write_error
from tidegate.cli.sending import Sending, request
from tidegate.ops.waiting import find_cleaning
from tidegate.publisher import Publisher
from tidegate.service.settings import Settings


@option_group(Sending)
def undo(
    sending: Sending,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="TABLE | EVENT_ID",
            help="A table: its newest cleaning; or the id of a vacuum, a cleaning or its start.",
        ),
    ],
    reason: Reason,
    execute: Execute = False,
    requested_by: RequestedBy = None,
    config: ConfigFile = None,
) -> None:
    """Put back the directories that a cleaning moved into quarantine, while they are there.

    Without --execute only the plan is made. The cleaner makes it, and refuses what could show a
    row twice, or what is not complete any more. With --wait the exit code is the outcome's. Hold
    the table first (`tidegate hold add`) if its next cleaning is not to take it again.

    Examples:
        tidegate undo lake.sales.orders --reason 'the report had stalled' --wait
        tidegate undo 95c3731d --reason 'the report had stalled' --execute --wait
    """
    found = find_cleaning(Settings.load(config), subject)
    if not execute:
        write_error("a plan only; --execute puts it back")
    request(
        config,
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
