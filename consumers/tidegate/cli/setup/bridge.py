"""`tidegate bridge`: publish on behalf of systems that can't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import (
    AsJson,
    ConfigFile,
    Execute,
    Logged,
    RequestedBy,
    option_group,
    person,
)
from tidegate.cli.output import write, write_json

if TYPE_CHECKING:
    from tidegate.hive_bridge.baseline import Baseline

bridge = typer.Typer(
    no_args_is_help=True, help="Publish on behalf of systems that can't do it themselves."
)


@bridge.command()
@option_group(Logged)
def metastore(logged: Logged) -> None:
    """Watch a Hive Metastore until SIGTERM or SIGINT: compactions, and the locks they wait for.

    Run as many as you like: one is active, and another takes over within seconds. See
    [bridge.metastore] in the settings.

    Examples:
        tidegate bridge metastore --config tidegate.toml
    """
    logged.run(["metastore-bridge"])


@bridge.command()
@option_group(Logged)
def hudi(logged: Logged) -> None:
    """Watch the timelines of Hudi tables until SIGTERM or SIGINT, and publish their commits.

    Run as many as you like: they share the tables, and take over from each other within seconds.
    See [bridge.hudi] of the settings.

    Examples:
        tidegate bridge hudi --config tidegate.toml
    """
    logged.run(["hudi-bridge"])


@bridge.command()
def accept_metastore(
    reason: Annotated[
        str, typer.Option(help="Why no reader uses the previous Metastore any more.")
    ],
    requested_by: RequestedBy = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="Also publish releases of all outstanding holds, as expired."
        ),
    ] = False,
    execute: Execute = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Accept a Metastore that has another database, or an older state of its own.

    The bridges have stopped and logged the reason. Without --execute the command only shows what it
    would accept. Vacuums that wait for holds of the previous Metastore go on waiting until the new
    one has assigned higher ids. With --release they are cleaned at once, as after an expiry. Make
    sure that no reader of the previous Metastore still reads.

    Examples:
        tidegate bridge accept-metastore --reason "restored after a disk fault"
    """
    from tidegate.ops.acceptance import accept, plan_acceptance  # noqa: PLC0415 - heavy

    settings, by = reachable(config), person(requested_by)
    plan = plan_acceptance(settings)
    before, waiting = plan.before, plan.waiting
    if not as_json:
        was = "the stored position can't be read" if before is None else _named(before)
        needed = "" if plan.is_needed else " (the bridges run without it)"
        outstanding = sum(len(vacuum.outstanding) for vacuum in waiting)
        tables = len({vacuum.table for vacuum in waiting})
        write(f"before: {was}")
        write(f"now: {_named(plan.now)}{needed}")
        write(f"{len(waiting)} vacuums of {tables} tables wait for {outstanding} holds")
    count = accept(settings, plan, by=by, why=reason, release=release) if execute else 0
    if as_json:
        fields = {"before": before, "now": plan.now, "needed": plan.is_needed, "waiting": waiting}
        write_json({"executed": execute, "releases": count, **fields})
    elif execute:
        write(f"accepted by {by}; {count} releases were published; start the bridges")
    else:
        write("nothing was changed; repeat it with --execute")


def _named(baseline: Baseline) -> str:
    return f"the database {baseline.metastore}, up to transaction {baseline.high_water_mark}"
