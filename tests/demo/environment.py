"""What the demo runs in: a broker, perhaps a Metastore, and a deployment with all services."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from rich.markup import escape

from demo.report import DemoReport
from support.deployment import Deployment
from support.embedded_metastore import EmbeddedMetastore
from support.kafka import bootstrap
from tidegate.embedded.process import Child
from tidegate.errors import TidegateError
from tidegate.events.base import Event
from tidegate.events.topics import OUTCOME_TOPIC, Topic
from tidegate.ops.dead_letters import DeadLetterBox, DeadLetterFilter
from tidegate.ops.event_log import EventLog
from tidegate.ops.groups import lags_of_service
from tidegate.publisher import Publisher
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import BROKER_RETRIES
from tidegate.service.assembly import SERVICES
from tidegate.service.settings import Settings

T = TypeVar("T")
TIMEOUT = 90.0
BRIDGE = "metastore-bridge"
_WATCHES = "this process watches the Metastore"
_SETTINGS = """\
[spark]
min_items = {min_items}

[spark.conf]
"spark.master" = "local[2]"
"spark.driver.memory" = "512m"

[[savepoints]]
tables = "*.customers"
when = "every_commit"
lifetime = "forever"
"""
_BRIDGE_SETTINGS = """
[bridge.metastore]
uri = "{uri}"
"hive.compaction-cleanup-interval" = "200ms"
"""

# PySpark's gateway sets the root logger's level to its own, so both must be off. Spark ignores a
# configuration that has no appender.
_QUIET = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


class DemoEnvironment:
    """A running deployment; a context manager that leaves no process behind."""

    deployment: Deployment
    metastore: EmbeddedMetastore

    def __init__(
        self,
        folder: Path,
        report: DemoReport,
        prefix: str = "demo",
        spark_from_items: int = 1,
        *,
        with_metastore: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            folder: An empty directory for tables, settings and logs.
            report: Where the steps are printed.
            prefix: Prefix of the topics.
            spark_from_items: Table work of at least so many items runs on Spark; with 1, all does.
            with_metastore: Start a Hive Metastore, and the bridge to it beside the services.
        """
        self.names = (*SERVICES, BRIDGE) if with_metastore else tuple(SERVICES)
        self.folder = folder
        self.prefix = prefix
        self.warehouse = folder / "warehouse"
        self._report = report
        self._settings = _SETTINGS.format(min_items=spark_from_items)
        self._children: dict[str, Child] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the broker, create the topics, start the services."""
        self.warehouse.mkdir(parents=True)
        if BRIDGE in self.names:
            with self._report.step("Start a real Hive Metastore on an embedded database"):
                self._start_metastore()
        with self._report.step("Start a real Kafka broker, create the topics"):
            servers = self._stack.enter_context(bootstrap(self.folder / "kafka"))
            deployment = Deployment(
                servers,
                self.prefix,
                self.folder,
                partitions=3,
                settings=self._settings,
                roots=[str(self.warehouse.resolve())],
            )
            self.deployment = self._stack.enter_context(deployment)
        self._silence_spark()
        bridge = " and the bridge to the Metastore" if BRIDGE in self.names else ""
        with self._report.step(f"Start the four services{bridge}, each a process of its own"):
            self.start_services()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the services, then the broker."""
        with self._report.step("Stop everything"):
            self._stack.close()

    def _start_metastore(self) -> None:
        where = {
            name: f"file:{self.warehouse.resolve()}/hive"
            for name in ("metastore.warehouse.dir", "metastore.warehouse.external.dir")
        }
        metastore = EmbeddedMetastore(self.folder / "metastore", settings=where)
        self.metastore = self._stack.enter_context(metastore)
        self._settings += _BRIDGE_SETTINGS.format(uri=metastore.uri)

    def _silence_spark(self) -> None:
        """Silence Spark's log, and bind it to the loopback interface."""
        quiet = self.folder / "spark-conf"
        quiet.mkdir()
        (quiet / "log4j2.properties").write_text(_QUIET, "utf-8")
        os.environ["SPARK_CONF_DIR"] = str(quiet.resolve())
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

    def publisher(self) -> Publisher:
        """The publisher that the upstream writers use."""
        return Publisher(self.deployment.servers, source="demo-upstream", prefix=self.prefix)

    def start_services(self, names: Sequence[str] | None = None) -> None:
        """Start services, each as a process of its own; by default all, and the bridge.

        A bridge is waited for: a lock that ends while none watches counts as expired, and what it
        held back goes into quarantine instead of being deleted.
        """
        watched = self._times_watched()
        for name in names or self.names:
            self._children[name] = self.deployment.run(name)
        if BRIDGE in (names or self.names):
            self.wait_for("watching bridge", lambda: self._times_watched() > watched)

    def _times_watched(self) -> int:
        """How often a bridge has said that it watches the Metastore."""
        log = self.folder / f"{BRIDGE}.log"
        return log.read_text("utf-8").count(_WATCHES) if log.exists() else 0

    def kill_services(self, names: Sequence[str] | None = None) -> None:
        """Kill services with SIGKILL, so that they can neither finish nor clean up."""
        for name in names or self.names:
            self._children[name].end(signal.SIGKILL, 20)

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        """Call `look` until it returns something true, and return that.

        Raises:
            TidegateError: the time-out passed, or a service exited.
        """
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if found := look():
                return found
            self._check_alive()
            time.sleep(0.1)
        raise TidegateError(
            f"no {what} within {TIMEOUT:.0f} s; the services' logs are in {self.folder}"
        )

    def run_command(self, *words: str) -> str:
        """Run `tidegate` as a person would, show what it prints, and give it.

        Raises:
            TidegateError: it failed.
        """
        self._report.detail(f"[bold]$ tidegate {' '.join(words)}[/]")
        settings = self.deployment.settings_file("people", {})
        command = [sys.executable, "-m", "tidegate.cli", *words, "--config", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            self._report.detail(f"[dim]{escape(line)}[/]")
        if done.returncode:
            raise TidegateError(f"tidegate {words[0]} exited with {done.returncode}: {done.stderr}")
        return done.stdout

    def events(self, topic: Topic) -> list[Event]:
        """The events of a topic, oldest first; a repeated one once."""
        log = EventLog.of(self._reader())
        logged = BROKER_RETRIES.call(lambda: list(log.read(topic)))
        return [*{found.event.event_id: found.event for found in logged if found.event}.values()]

    def outcomes(self) -> list[Event]:
        """The outcomes, oldest first; a repeated one once."""
        return self.events(OUTCOME_TOPIC)

    def dead_letters(self) -> list[bytes | None]:
        """The messages that became dead letters."""
        with DeadLetterBox(self._reader()) as box:
            batches = box.batches(box.list(DeadLetterFilter()))
            return [found.record.value for batch in batches for found in batch]

    def _reader(self) -> Settings:
        kafka = {"bootstrap.servers": self.deployment.servers}
        return Settings(kafka=kafka, topics=self.deployment.topics)

    def wait_until_idle(self) -> None:
        """Wait until every service has committed all that it consumes."""
        self.wait_for("end of the consumer lag", lambda: BROKER_RETRIES.call(self._is_idle))

    def _is_idle(self) -> bool:
        metadata = KafkaMetadata(self.deployment.connection)
        lags = (lags_of_service(metadata, self.prefix, name) for name in SERVICES)
        return not any(lag.records for found in lags for lag in found.values())

    def _check_alive(self) -> None:
        for name, child in self._children.items():
            if child.exit_code not in (None, -signal.SIGKILL):
                raise TidegateError(f"the service {name} exited:\n{child.tail()}")
