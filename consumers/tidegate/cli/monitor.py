"""`tidegate monitor`: a service that exports the metrics of a complete deployment."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from tidegate.cli.options import ConfigFile
from tidegate.service.settings import Settings
from tidegate.service.signals import stop_on_signals

DEFAULT_PORT = 9465


def monitor(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Default: [monitoring] host.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where /metrics is.")] = DEFAULT_PORT,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two polls of the deployment.")
    ] = 15,
    waiting_interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two counts of waiting vacuums.")
    ] = 300,
) -> None:
    """Export metrics of the complete deployment, read from the broker, until SIGTERM or SIGINT."""
    from tidegate.monitoring.catalog import DEPLOYMENT_METRICS  # noqa: PLC0415 - heavy
    from tidegate.monitoring.endpoint import serve  # noqa: PLC0415 - heavy
    from tidegate.monitoring.logs import configure_logging  # noqa: PLC0415 - heavy
    from tidegate.monitoring.metrics import Metrics  # noqa: PLC0415 - heavy
    from tidegate.ops.monitor import DeploymentMonitor, MonitorHealth  # noqa: PLC0415 - heavy

    configure_logging()
    settings, stop = Settings.load(config), threading.Event()
    metrics, health = Metrics(DEPLOYMENT_METRICS), MonitorHealth(interval)
    deployment = DeploymentMonitor(settings, metrics)
    address = host or settings.monitoring.host
    with stop_on_signals(stop), serve(address, port, metrics.registry, health):
        deployment.run(stop, interval, health, waiting_interval)
