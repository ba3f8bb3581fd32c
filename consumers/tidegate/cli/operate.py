"""The subcommands for operators: services, topics, plans, the broker, the demo."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.bridge import bridge
from tidegate.cli.config import config as config_group
from tidegate.cli.dead_letters import dead_letters
from tidegate.cli.doctor import doctor
from tidegate.cli.explain import explain
from tidegate.cli.hold import hold
from tidegate.cli.keys import keys
from tidegate.cli.monitor import monitor
from tidegate.cli.options import ConfigFile, LogFormatName, Verbose, configure_log
from tidegate.cli.outcomes import outcomes
from tidegate.cli.output import write_json
from tidegate.cli.plans import plan
from tidegate.cli.replay import replay
from tidegate.cli.savepoints import savepoints
from tidegate.cli.simulate import simulate
from tidegate.cli.skip import skip
from tidegate.cli.spark_archive import spark_archive
from tidegate.cli.status import status
from tidegate.cli.topics import topics
from tidegate.cli.undo import undo
from tidegate.cli.waiting import waiting
from tidegate.service.settings import Settings
from tidegate.service.signals import stop_on_signals


def operate(app: typer.Typer) -> None:
    """Add the subcommands to an app."""
    app.add_typer(bridge, name="bridge")
    app.add_typer(topics, name="topics")
    app.add_typer(plan, name="plan")
    app.add_typer(config_group, name="config")
    app.add_typer(replay, name="replay")
    app.add_typer(dead_letters, name="dead-letters")
    app.add_typer(keys, name="keys")
    app.add_typer(hold, name="hold")
    app.add_typer(savepoints, name="savepoints")
    app.command()(status)
    app.command()(outcomes)
    app.command()(waiting)
    app.command()(explain)
    app.command()(undo)
    app.command()(run)
    app.command()(doctor)
    app.command()(monitor)
    app.command()(broker)
    app.command()(skip)
    app.command()(simulate)
    app.command()(spark_archive)
    app.command()(demo)


def run(
    services: Annotated[list[str] | None, typer.Argument(help="Default: all services.")] = None,
    config: ConfigFile = None,
    verbose: Verbose = False,
    log_format: LogFormatName = "auto",
) -> None:
    """Run services until SIGTERM or SIGINT."""
    from tidegate.service.assembly import SERVICES  # noqa: PLC0415 - heavy
    from tidegate.service.runner import run_services  # noqa: PLC0415 - heavy

    configure_log(log_format, verbose=verbose)
    run_services(services or list(SERVICES), Settings.load(config), threading.Event())


def broker(
    folder: Annotated[Path, typer.Argument(help="Its data directory.")] = Path("kafka-data"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where clients connect.")] = 9092,
) -> None:
    """Run a real Kafka broker here, without Docker, until SIGTERM or SIGINT."""
    from tidegate.local.embedded import EmbeddedBroker  # noqa: PLC0415 - heavy

    stop = threading.Event()
    with stop_on_signals(stop), EmbeddedBroker(folder, port=port) as kafka:
        write_json({"bootstrap.servers": kafka.bootstrap_servers})
        stop.wait()


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="A new directory; default: a new one in demo-runs.")
    ] = None,
    metastore: Annotated[
        bool, typer.Option(help="Whether Hive's part runs on a real Metastore.")
    ] = True,
) -> None:
    """Run the whole story on real parts, and check every step.

    Without a Metastore the vacuum and the releases of its locks are published by hand.
    """
    from tidegate.local.demo.run import run_demo  # noqa: PLC0415 - heavy

    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    raise typer.Exit(run_demo(folder or Path("demo-runs") / run, with_metastore=metastore))
