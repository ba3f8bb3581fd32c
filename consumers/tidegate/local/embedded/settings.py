"""The settings of a Kafka node that starts quickly and needs little memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"

_QUICK: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "1048576",
    # as long as commands are kept: a stopped service resumes where it stopped
    "offsets.retention.minutes": "43200",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "1048576",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.segment.bytes": "1048576",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "3000",
    # after this time a killed broker counts as dead, and may register again
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c)%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
"""log4j2's configuration: everything to standard output, which goes into the log file."""


def broker_settings(
    data: Path, port: int, controller_port: int, properties: Mapping[str, str]
) -> dict[str, str]:
    """Compose a node's settings; `properties` win over all of them.

    Args:
        data: The directory for its logs.
        port: Where clients connect, on the loopback interface.
        controller_port: Where its controller listens, there too.
        properties: Kafka's own names and values: node ids and voters of a cluster, TLS, SASL.
    """
    settings = {
        **_QUICK,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": str(data),
        **properties,
    }
    [controller, *_] = _addresses(settings, of_controllers=True) or [f"{HOST}:{controller_port}"]
    alone = {"controller.quorum.voters": f"{settings['node.id']}@{controller}"}
    return alone | settings


def to_properties(settings: Mapping[str, str]) -> str:
    r"""Write settings as a Java properties file, a backslash as `\\`."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in settings.items())
    return "\n".join(lines) + "\n"


def client_addresses(settings: Mapping[str, str]) -> str:
    """Read `host:port` of every listener that is not a controller's, separated by commas."""
    return ",".join(_addresses(settings, of_controllers=False))


def _addresses(settings: Mapping[str, str], *, of_controllers: bool) -> list[str]:
    controllers = settings["controller.listener.names"].split(",")
    listeners = (part.strip().split("://", 1) for part in settings["listeners"].split(","))
    return [address for name, address in listeners if (name in controllers) == of_controllers]
