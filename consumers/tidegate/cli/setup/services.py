"""What runs until it is stopped: services, the monitor, a local broker; and the demo."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from tidegate.cli.options import Logged, option_group
from tidegate.cli.output import is_terminal, write, write_json
from tidegate.errors.commands import command_line
from tidegate.service.runner import stop_on_signals
from tidegate.service.settings import Settings

METRICS_PORT: Final = 9465


@option_group(Logged)
def run(
    logged: Logged,
    services: Annotated[list[str] | None, typer.Argument(help="Default: all services.")] = None,
) -> None:
    """Run services until SIGTERM or SIGINT.

    SIGHUP: with the settings as they are then.

    Examples:
        tidegate run --config tidegate.toml
        tidegate run restorer cleaner
    """
    from tidegate.service.assembly import SERVICES  # noqa: PLC0415 - heavy

    logged.run(services or list(SERVICES))


def broker(
    folder: Annotated[Path, typer.Argument(help="Its data directory.")] = Path("kafka-data"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where clients connect.")] = 9092,
) -> None:
    """Run a real Kafka broker here, without Docker, until SIGTERM or SIGINT.

    Examples:
        tidegate broker ./kafka-data
    """
    from tidegate.local.embedded import EmbeddedBroker  # noqa: PLC0415 - heavy

    stop = threading.Event()
    with stop_on_signals(stop), EmbeddedBroker(folder, port=port) as kafka:
        servers = kafka.bootstrap_servers
        if is_terminal():
            write(f"Kafka is ready on {servers}, its data is in {folder.resolve()}")
            write("Ctrl-C stops it. In another shell:")
            write(f"  export KAFKA_BOOTSTRAP_SERVERS={servers}")
            write(f"  {command_line('topics create')}")
        else:
            write_json({"bootstrap.servers": servers})
        stop.wait()


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="A new directory; default: a new one in demo-runs.")
    ] = None,
) -> None:
    """Run the complete story on real parts, and check every step.

    Examples:
        tidegate demo
        tidegate demo ./my-demo
    """
    from tidegate.local.demo.run import run_demo  # noqa: PLC0415 - heavy

    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    raise typer.Exit(run_demo(folder or Path("demo-runs") / run))


@option_group(Logged)
def monitor(
    logged: Logged,
    host: Annotated[str | None, typer.Option(help="Default: [monitoring] host.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where /metrics is.")] = METRICS_PORT,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two polls of the deployment.")
    ] = 15,
    waiting_interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two counts of waiting vacuums.")
    ] = 300,
) -> None:
    """Export metrics of the complete deployment, read from the broker, until SIGTERM or SIGINT.

    SIGHUP: with the settings as they are then.

    Examples:
        tidegate monitor --config tidegate.toml
    """
    from tidegate.monitoring.catalog import DEPLOYMENT_METRICS  # noqa: PLC0415 - heavy
    from tidegate.monitoring.endpoint import serve  # noqa: PLC0415 - heavy
    from tidegate.monitoring.metrics import Metrics  # noqa: PLC0415 - heavy
    from tidegate.ops.monitor import DeploymentMonitor  # noqa: PLC0415 - heavy

    settings, stop, metrics = logged.settings(), threading.Event(), Metrics(DEPLOYMENT_METRICS)
    deployment = DeploymentMonitor(settings, metrics)
    health = deployment.not_live, partial(deployment.not_ready, interval)
    address = host or settings.monitoring.host
    read_settings = partial(Settings.load, logged.config)
    serving = serve(address, port, metrics.registry, health, settings.shown())
    with stop_on_signals(stop, read_settings), serving:
        deployment.run(stop, interval, waiting_interval)
