"""`tidegate bridge`: publish on behalf of systems that can't."""

from __future__ import annotations

import logging
import threading
from typing import Annotated

import typer

from tidegate.cli.options import ConfigFile
from tidegate.service.settings import Settings

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
