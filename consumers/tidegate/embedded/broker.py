"""A real Apache Kafka on this machine, without Docker: one KRaft node started from its jars."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.compute.java import find_java
from tidegate.embedded.jars import resolve
from tidegate.embedded.process import (
    HOST,
    LOGGING,
    Child,
    EmbeddedServer,
    free_ports,
    is_open,
    java_command,
)
from tidegate.errors import ConfigError

_QUICK: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
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

KAFKA: Final = Path(__file__).with_name("kafka.json")
"""The lock of Kafka's jars."""
_FORMAT_SECONDS: Final = 120
_ANSWER_SECONDS: Final = 2.0
_KAFKA_NEEDS_JAVA: Final = 17


def to_properties(settings: Mapping[str, str]) -> str:
    r"""Write settings as a Java properties file, a backslash as `\\`."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in settings.items())
    return "\n".join(lines) + "\n"


def new_cluster_id() -> str:
    """Make a cluster id: 22 characters, a random UUID in base64url."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # Kafka's tool takes a leading dash for an option
    return "A" + made[1:] if made.startswith("-") else made


class EmbeddedBroker(EmbeddedServer):
    """One Kafka node; another object may use its data, but only one at a time."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        """Describe the node; nothing is touched yet.

        Args:
            folder: Its directory: settings, data, `kafka.log`. Made if it is not there.
            port: Where clients connect; one that is free at the first start if None.
        """
        super().__init__("Kafka", folder, startup_seconds=60)
        self.heap_mb = 256
        """The JVM's heap in MiB."""
        if port is not None:
            self._ports = port, free_ports()[0]
        self._cluster_id = new_cluster_id()
        self._client: Mapping[str, str] = {}
        """librdkafka's settings for asking whether it is up."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients. Raises as `ports`."""
        return f"{HOST}:{self.ports[0]}"

    def _settings(self, ports: tuple[int, int]) -> dict[str, str]:
        clients, controllers = ports
        return {
            **_QUICK,
            "listeners": f"PLAINTEXT://{HOST}:{clients},CONTROLLER://{HOST}:{controllers}",
            "controller.quorum.voters": f"{_QUICK['node.id']}@{HOST}:{controllers}",
            "log.dirs": str(self.folder / "data"),
        }

    def _launch(self, ports: tuple[int, int]) -> Child:
        java, jars = find_java(_KAFKA_NEEDS_JAVA), resolve(KAFKA)
        settings = self._settings(ports)
        self.folder.mkdir(parents=True, exist_ok=True)
        # records, and passwords in its settings, are for this user only
        self.folder.chmod(0o700)
        file, logging = self.folder / "server.properties", self.folder / "log4j2.properties"
        for path, content in {file: to_properties(settings), logging: LOGGING}.items():
            path.touch(0o600)
            path.chmod(0o600)  # before the content, which may hold passwords
            path.write_text(content, encoding="utf-8")
        options = [f"-Dlog4j2.configurationFile={logging}"]
        self._format(java, jars, Path(settings["log.dirs"]), file, options)
        command = java_command(
            java, jars, "kafka.Kafka", [str(file)], heap_mb=self.heap_mb, options=options
        )
        return Child(command, self.log)

    def _format(
        self, java: Path, jars: Sequence[Path], data: Path, file: Path, options: Sequence[str]
    ) -> None:
        """Give an empty data directory its cluster id, as Kafka's own tool does; or read its id.

        Raises:
            ConfigError: the tool refuses the settings or the directory.
        """
        with suppress(FileNotFoundError):
            lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
            properties = dict(line.split("=", 1) for line in lines if "=" in line)
            self._cluster_id = properties.get("cluster.id", self._cluster_id)
            return
        arguments = ["format", "-t", self._cluster_id, "-c", str(file)]
        main = "kafka.tools.StorageTool"
        answer = subprocess.run(
            java_command(java, jars, main, arguments, heap_mb=128, options=options),
            capture_output=True,
            text=True,
            timeout=_FORMAT_SECONDS,
            check=False,
            umask=0o077,
        )
        if answer.returncode != 0:
            output = (answer.stdout + answer.stderr).strip()
            raise ConfigError(f"the storage of the embedded Kafka could not be formatted: {output}")

    def _answers(self) -> bool:
        """Whether it answers a metadata request, and is of its cluster: its port may be another's.

        The port is tried first: a client would wait much longer for a port that is not open yet.
        """
        address = self.bootstrap_servers
        if not is_open(HOST, self.ports[0]):
            return False
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0, **self._client})
        try:
            metadata = admin.list_topics(timeout=_ANSWER_SECONDS)
        except KafkaException:
            return False
        # typed as None by the client; it is a string
        return (
            bool(metadata.brokers) and cast("str | None", metadata.cluster_id) == self._cluster_id
        )
