"""A real Apache Kafka on this machine, without Docker: one KRaft node started from its jars."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tidegate.compute.java import find_jdk
from tidegate.errors import ConfigError
from tidegate.local.embedded.jars import resolve
from tidegate.local.embedded.java import ClassArchive, java_command
from tidegate.local.embedded.node import (
    cluster_of,
    format_storage,
    free_ports,
    new_cluster_id,
    why_not_up,
    write_files,
)
from tidegate.local.embedded.process import Child
from tidegate.local.embedded.server import EmbeddedServer
from tidegate.local.embedded.settings import broker_settings, client_addresses

_KAFKA_NEEDS_JAVA: Final = 17
_CLEAN_EXITS: Final = (0, 143, -signal.SIGTERM)
_PORT_TAKEN: Final = "Address already in use"
_ATTEMPTS: Final = 3


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
