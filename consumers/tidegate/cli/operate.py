"""The subcommands of those who run Tidegate: services, topics, plans, the broker, the demo."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.dead_letters import dead_letters
from tidegate.cli.doctor import doctor
from tidegate.cli.options import ConfigFile
from tidegate.cli.plans import plan
from tidegate.cli.replay import replay
from tidegate.cli.topics import topics
from tidegate.runtime.signals import stopped_by_signals
from tidegate.settings import Settings


def operate(app: typer.Typer) -> None:
    """Add the subcommands to an app."""
    app.add_typer(topics, name="topics")
    app.add_typer(plan, name="plan")
    app.add_typer(replay, name="replay")
    app.add_typer(dead_letters, name="dead-letters")
    app.command()(run)
    app.command()(doctor)
    app.command()(broker)
    app.command()(demo)


def run(
    services: Annotated[list[str] | None, typer.Argument(help="Default: all of them.")] = None,
    config: ConfigFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
) -> None:
    """Run services until SIGTERM or SIGINT."""
    from tidegate.services import SERVICES, run_services  # noqa: PLC0415 - heavy

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    run_services(services or list(SERVICES), Settings.load(config), threading.Event())


def broker(
    folder: Annotated[Path, typer.Argument(help="Where it keeps its data.")] = Path("kafka-data"),
) -> None:
    """Run a real Kafka broker here, without Docker, until SIGTERM or SIGINT."""
    from tidegate.embedded import EmbeddedBroker  # noqa: PLC0415 - heavy

    stop = threading.Event()
    with stopped_by_signals(stop), EmbeddedBroker(folder) as kafka:
        typer.echo(json.dumps({"bootstrap.servers": kafka.bootstrap_servers}))
        stop.wait()


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="A new directory; default: one below demo-runs.")
    ] = None,
) -> None:
    """Tell the whole story on real parts, and check every step of it."""
    from tidegate.demo.playing import run_demo  # noqa: PLC0415 - heavy

    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    raise typer.Exit(run_demo(folder or Path("demo-runs") / run))
