"""`tidegate bridge`: publish on behalf of systems that can't."""

from __future__ import annotations

import getpass
import logging
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.options import ConfigFile, Execute, RequestedBy
from tidegate.cli.output import write
from tidegate.cli.reachable import reachable
from tidegate.service.settings import Settings

if TYPE_CHECKING:
    from tidegate.hive_bridge.baseline import Baseline
    from tidegate.ops.acceptance import Acceptance

bridge = typer.Typer(
    no_args_is_help=True, help="Publish on behalf of systems that can't do it themselves."
)


@bridge.command()
def metastore(
    config: ConfigFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log at level DEBUG.")] = False,
    log_format: Annotated[
        str, typer.Option(help="auto (human on a terminal, else json), human or json.")
    ] = "auto",
) -> None:
    """Watch a Hive Metastore until SIGTERM or SIGINT: compactions, and the locks they wait for.

    Run as many as you like: one is active, another takes over within seconds. See
    [bridge.metastore] of the settings.
    """
    from tidegate.monitoring.logs import LogFormat, configure_logging  # noqa: PLC0415 - heavy
    from tidegate.service.runner import run_metastore_bridge  # noqa: PLC0415 - heavy

    if log_format not in set(LogFormat):
        raise typer.BadParameter(f"choose from {', '.join(LogFormat)}", param_hint="--log-format")
    configure_logging(logging.DEBUG if verbose else logging.INFO, LogFormat(log_format))
    run_metastore_bridge(Settings.load(config), threading.Event())


@bridge.command()
def accept_metastore(
    why: Annotated[str, typer.Option(help="Why nobody reads by the one before any more.")],
    requested_by: RequestedBy = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="Also publish the end of all that is waited for, as expired.",
        ),
    ] = False,
    execute: Execute = False,
    config: ConfigFile = None,
) -> None:
    """Go on with a Metastore that has another database, or an older state of its own.

    The bridges, which have stopped, say it in their log. Without --execute it only shows what would
    be forgotten. What waits for locks and transactions of the one before goes on waiting, until the
    new one has given out higher ids; with --release it is free at once, and cleaned as after an
    expiry. Be sure that no reader of the one before still reads.
    """
    from tidegate.ops.acceptance import accept, plan_acceptance  # noqa: PLC0415 - heavy
    from tidegate.publisher import Publisher  # noqa: PLC0415 - heavy

    settings = reachable(config)
    plan = plan_acceptance(settings)
    for line in _described(plan):
        write(line)
    if not execute:
        write("nothing was changed; repeat it with --execute")
        return
    by = requested_by or getpass.getuser()
    with Publisher(
        said_by=by,
        prefix=settings.topics.prefix,
        config=settings.connection(),
        registry=settings.registry,
    ) as publisher:
        count = accept(settings, plan, by=by, why=why, release=release, publisher=publisher)
    write(f"accepted by {by}; {count} releases were published; start the bridges")


def _described(plan: Acceptance) -> list[str]:
    before, now = plan.before, plan.now
    was = "what is stored can't be read" if before is None else _named(before)
    lacks = sum(len(each.lacks) for each in plan.waiting)
    tables = len({each.table for each in plan.waiting})
    needed = "" if plan.is_needed else " (the bridges would go on as it is)"
    return [
        f"before: {was}",
        f"now: {_named(now)}{needed}",
        f"{len(plan.waiting)} vacuums of {tables} tables wait for {lacks} locks and transactions",
    ]


def _named(baseline: Baseline) -> str:
    return f"the database {baseline.metastore}, up to transaction {baseline.high_water_mark}"
