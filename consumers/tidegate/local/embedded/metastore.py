"""A real Hive Metastore on this machine, without Docker: from its jars, on embedded Derby."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tidegate.compute.java import find_jdk
from tidegate.errors import ConfigError
from tidegate.local.embedded.metastore_home import (
    HIVE_4,
    MetastoreVersion,
    copy_database,
    derby_settings,
    metastore_home,
)
from tidegate.local.embedded.node import free_ports
from tidegate.local.embedded.process import Child
from tidegate.local.embedded.server import EmbeddedServer
from tidegate.local.embedded.settings import HOST, LOGGING

_NEEDS_JAVA: Final = 17
_CHECK_SECONDS: Final = 0.05
_OURS: Final = {
    "metastore.thrift.bind.host": HOST,
    # the doubled name is Hive's own
    "metastore.metastore.event.db.notification.api.auth": "false",
    # Tidegate is the cleaner; Hive's own must not run beside it
    "metastore.compactor.initiator.on": "false",
    "metastore.compactor.cleaner.on": "false",
}


class EmbeddedMetastore(EmbeddedServer):
    """One Metastore in its own directory; it can be stopped or killed, and started again.

    Its data stay in the directory. The port is chosen at the first start and kept. If this process
    dies in any way, the Metastore is killed (Linux). Start-up takes some 4 s; the first one on a
    machine also fetches 165 MB and creates the schema (15 s).

    Use it as a context manager, or call `start` and `stop`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        version: MetastoreVersion = HIVE_4,
        heap_mb: int = 384,
        startup_seconds: float = 120,
    ) -> None:
        """Describe it; nothing is touched yet.

        Args:
            folder: Its directory: database, warehouse, `metastore.log`. Made if it is not there.
            settings: The Metastore's settings that win over ours, by name.
            version: Hive's version.
            heap_mb: The JVM's heap in MiB.
            startup_seconds: How long to wait until its port is open.
        """
        super().__init__(startup_seconds)
        self.folder = folder
        self.log = folder / "metastore.log"
        self.warehouse = folder / "warehouse"
        self.settings = dict(settings or {})
        self.version = version
        self._heap_mb = heap_mb
        self._port: int | None = None

    @property
    def uri(self) -> str:
        """`thrift://host:port` for clients; the same after a restart.

        Raises:
            ConfigError: it was never started.
        """
        if self._port is None:
            raise ConfigError("the Metastore has no address before its first start")
        return f"thrift://{HOST}:{self._port}"

    def start(self) -> Self:
        """Start it and return when its port is open. Started twice is started once.

        Raises:
            ConfigError: no Java 17; or it did not come up, with the end of its log.
            TransientError: its jars could not be fetched.
        """
        if self._child is not None and self._child.exit_code is None:
            return self
        self._port = self._port or free_ports()[0]
        self._child = self._launch(self._port)
        reason = _why_not_up(self._child, self._port, self._startup_seconds)
        if reason is not None:
            tail = self._child.tail()
            self.kill()
            raise ConfigError(f"the embedded Metastore {reason}; the end of {self.log}:\n{tail}")
        return self

    def _launch(self, port: int) -> Child:
        jdk = find_jdk(_NEEDS_JAVA)
        home = metastore_home(jdk, self.version)
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        database = self.folder / "database"
        if not database.exists():
            copy_database(home, database)
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        settings = {
            **derby_settings(database),
            "metastore.warehouse.dir": f"file:{self.warehouse}",
            "metastore.warehouse.external.dir": f"file:{self.warehouse}",
            **_OURS,
            "metastore.task.threads.always": self.version.housekeeper,
            self.version.interval_setting: "5s",
            **self.settings,
        }
        options = [
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dderby.stream.error.file={self.folder / 'derby.log'}",
        ]
        main, arguments = self.version.main, ["-p", str(port)]
        command = home.command(
            jdk, main, arguments, settings, heap_mb=self._heap_mb, options=options
        )
        return Child(command, self.log)


def _why_not_up(child: Child, port: int, seconds: float) -> str | None:
    """Wait until the port is open; None then, else what is wrong."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.exit_code is not None:
            return f"ended at once (exit code {child.exit_code})"
        try:
            socket.create_connection((HOST, port), timeout=2).close()
        except OSError:
            time.sleep(_CHECK_SECONDS)
        else:
            return None
    return f"did not open its port within {seconds:g} s"
