"""A real Apache Kafka on this machine, without Docker: one KRaft node started from its jars."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.compute.java import Jdk, find_jdk
from tidegate.errors import ConfigError
from tidegate.local.embedded.jars import resolve
from tidegate.local.embedded.java import ClassArchive, java_command
from tidegate.local.embedded.process import Child, EmbeddedServer

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
_FORMAT_SECONDS: Final = 120
_POLL_SECONDS: Final = 0.02
_ANSWER_SECONDS: Final = 2.0
_KAFKA_NEEDS_JAVA: Final = 17
_CLEAN_EXITS: Final = (0, 143, -signal.SIGTERM)
_PORT_TAKEN: Final = "Address already in use"
_ATTEMPTS: Final = 3
SERVERS_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"


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


def write_files(folder: Path, settings: Mapping[str, str]) -> tuple[Path, str]:
    """Write `server.properties` and the logging configuration.

    Returns:
        The settings file, and the JVM option that names the logging configuration.
    """
    file, logging = folder / "server.properties", folder / "log4j2.properties"
    contents = {file: to_properties(settings), logging: LOGGING}
    for path, content in contents.items():
        path.touch(0o600)
        path.chmod(0o600)  # before the content, which may hold passwords
        path.write_text(content, encoding="utf-8")
    return file, f"-Dlog4j2.configurationFile={logging}"


def format_storage(
    jdk: Jdk, jars: Sequence[Path], file: Path, cluster_id: str, options: Sequence[str]
) -> None:
    """Give an empty data directory its cluster id, as Kafka's own tool does.

    Raises:
        ConfigError: the tool refuses the settings or the directory.
    """
    arguments = ["format", "-t", cluster_id, "-c", str(file)]
    main = "kafka.tools.StorageTool"
    command = java_command(jdk, jars, main, arguments, heap_mb=128, options=options)
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_FORMAT_SECONDS,
        check=False,
        umask=0o077,
    )
    if answer.returncode != 0:
        output = (answer.stdout + answer.stderr).strip()
        raise ConfigError(f"the storage of the embedded Kafka could not be formatted: {output}")


def new_cluster_id() -> str:
    """Make a cluster id: 22 characters, a random UUID in base64url."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # Kafka's tool takes a leading dash for an option
    return "A" + made[1:] if made.startswith("-") else made


def cluster_of(data: Path) -> str | None:
    """Read the cluster id out of a data directory, None if it was never formatted."""
    try:
        lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    return properties.get("cluster.id")


def free_ports() -> tuple[int, int]:
    """Find two unused ports. Another process may take one before they are used."""
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOST, 0))
        other.bind((HOST, 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def why_not_up(
    child: Child, address: str, cluster_id: str, client: Mapping[str, str], seconds: float
) -> str | None:
    """Wait until the node answers a metadata request.

    An answer counts only if it is from this node's cluster: its port may be another broker's.

    Args:
        child: Its process; if that ends, the wait does.
        address: Its `host:port`.
        cluster_id: Its cluster.
        client: librdkafka settings to ask with.
        seconds: How long to wait, in seconds.

    Returns:
        None once it answers, else what is wrong.
    """
    deadline = time.monotonic() + seconds
    host, port = address.split(",", 1)[0].rsplit(":", 1)
    while time.monotonic() < deadline:
        if child.exit_code is not None:
            return f"ended at once (exit code {child.exit_code})"
        if _is_open(host, int(port)) and _answers(address, cluster_id, client):
            return None
        time.sleep(_POLL_SECONDS)
    return f"did not answer within {seconds:g} s"


def _is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _answers(address: str, cluster_id: str, client: Mapping[str, str]) -> bool:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0, **client})
    try:
        metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException:
        return False
    # typed as None by the client; it is a string
    return bool(metadata.brokers) and cast("str | None", metadata.cluster_id) == cluster_id


class EmbeddedBroker(EmbeddedServer):
    """One Kafka node in its own directory; it can be stopped or killed, and started again.

    Its data stay in the directory; another object may use them, but only one at a time. The address
    is chosen at the first start and kept. If this process dies in any way, the broker is killed
    (Linux).

    Use it as a context manager, or call `start` and `stop`.
    """

    def __init__(  # noqa: PLR0913 - all but the folder are options by name
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        port: int | None = None,
        heap_mb: int = 256,
        startup_seconds: float = 60,
    ) -> None:
        """Describe the node; nothing is touched yet.

        Args:
            folder: Its directory: settings, data, `broker.log`. Made if it is not there.
            properties: Kafka settings that win over ours: node ids, voters, TLS, SASL.
            client: librdkafka settings for asking whether it is up (TLS, SASL).
            cluster_id: The cluster that a new node belongs to; a new one of its own if None.
            port: Where clients connect; one that is free at the first start if None.
            heap_mb: The JVM's heap in MiB.
            startup_seconds: How long to wait until it answers.
        """
        super().__init__(startup_seconds)
        self.folder = folder
        self.log = folder / "broker.log"
        self._properties = dict(properties or {})
        self._client = dict(client or {})
        self._cluster_id = cluster_id or new_cluster_id()
        self._heap_mb = heap_mb
        self._port = port
        self._ports: tuple[int, int] | None = None
        self._archive: ClassArchive | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; the same after a restart.

        Raises:
            ConfigError: it was never started.
        """
        if self._ports is None:
            raise ConfigError("the broker has no address before its first start")
        return client_addresses(self._settings(self._ports))

    def start(self) -> Self:
        """Start the node and return when it answers clients. Started twice is started once.

        Raises:
            ConfigError: no Java 17; or it did not come up, with the end of its log.
            TransientError: its jars could not be fetched.
        """
        if self._child is not None and self._child.exit_code is not None:
            self._ended()
        if self._child is not None:
            return self
        is_fixed = self._port or self._ports or "listeners" in self._properties
        for _ in range(_ATTEMPTS):
            clients, controllers = self._ports or free_ports()
            self._ports = (self._port or clients, controllers)
            child = self._launch(self._ports)
            reason = why_not_up(
                child, self.bootstrap_servers, self._cluster_id, self._client, self._startup_seconds
            )
            if reason is None:
                return self
            self.kill()
            if is_fixed or _PORT_TAKEN not in child.tail():
                raise ConfigError(
                    f"the embedded Kafka {reason}; the end of {self.log}:\n{child.tail()}"
                )
            self._ports = None
        raise ConfigError(f"the embedded Kafka found no free port {_ATTEMPTS} times in a row")

    def _settings(self, ports: tuple[int, int]) -> dict[str, str]:
        return broker_settings(self.folder / "data", *ports, self._properties)

    def _launch(self, ports: tuple[int, int]) -> Child:
        jdk, jars = find_jdk(_KAFKA_NEEDS_JAVA), resolve("kafka")
        settings = self._settings(ports)
        self.folder.mkdir(parents=True, exist_ok=True)
        # records and the passwords in its settings are for this user only
        self.folder.chmod(0o700)
        file, logging = write_files(self.folder, settings)
        self._archive = ClassArchive.of("kafka", jdk, jars)
        formatted = cluster_of(Path(settings["log.dirs"]))
        if formatted is None:
            format_storage(jdk, jars, file, self._cluster_id, [*self._archive.use(), logging])
        self._cluster_id = formatted or self._cluster_id
        options = [*self._archive.use_or_make(), logging]
        command = java_command(
            jdk, jars, "kafka.Kafka", [str(file)], heap_mb=self._heap_mb, options=options
        )
        self._child = Child(command, self.log)
        return self._child

    def _ended(self) -> None:
        if self._child is not None and self._archive is not None:
            self._archive.finish(complete=self._child.exit_code in _CLEAN_EXITS)
        super()._ended()


@contextmanager
def bootstrap(folder: Path) -> Generator[str]:
    """The address of KAFKA_BOOTSTRAP_SERVERS, else of an embedded broker that is started here.

    The embedded broker keeps its data in `folder`, and stops at the end of the block.

    Raises:
        ConfigError: the embedded broker could not be started.
        TransientError: its jars could not be fetched.
    """
    named = os.environ.get(SERVERS_VARIABLE, "").strip()
    if named:
        yield named
        return
    with EmbeddedBroker(folder) as broker:
        yield broker.bootstrap_servers
