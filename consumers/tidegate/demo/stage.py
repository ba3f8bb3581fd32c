"""The stage of the demo: a broker, the services as processes that can be killed, the audience."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from tidegate.demo.audience import Audience
from tidegate.demo.story import Story
from tidegate.embedded import bootstrap
from tidegate.embedded.process import Child
from tidegate.errors import TidegateError
from tidegate.publisher import Publisher
from tidegate.services import DECIDERS, SERVICES
from tidegate.settings import TopicSettings
from tidegate.spark import use_fitting_java
from tidegate.topics import create_topics

T = TypeVar("T")
PATIENCE: Final = 90.0
PARTITIONS: Final = 3
_SETTINGS: Final = """\
[topics]
prefix = "{prefix}"
partitions = {partitions}

[warehouse]
roots = ["{warehouse}"]

[spark]
from_items = {from_items}

[spark.conf]
"spark.master" = "local[2]"
"spark.driver.memory" = "512m"

[services]
session_timeout_ms = 3000

[[savepoints]]
tables = "*.customers"
when = "every_commit"
"""

# PySpark's gateway sets the root's level to its own, so both must be off; and Spark takes a
# configuration without an appender for none at all.
_QUIET: Final = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


class Stage:
    """All that the demo's story plays on; a context manager that leaves nothing running."""

    def __init__(
        self, folder: Path, story: Story, prefix: str = "demo", spark_from_items: int = 1
    ) -> None:
        """Take a directory of its own; nothing is started yet.

        With `spark_from_items` 1 all table work runs on Spark, so that you see it work there.
        """
        self._spark_from_items = spark_from_items
        self.folder = folder
        self._story = story
        self.prefix = prefix
        self.warehouse = folder / "warehouse"
        self.servers = ""
        self._children: dict[str, Child] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the broker, make the topics, start the services."""
        self.warehouse.mkdir(parents=True)
        with self._story.step("A real Kafka broker starts, the topics are made"):
            self._prepare_broker()
        self._prepare_spark()
        with self._story.step("Five services start, each a process of its own"):
            self.start_services()
        return self

    def _prepare_broker(self) -> None:
        self.servers = self._stack.enter_context(bootstrap(self.folder / "kafka"))
        self._settings = self.folder / "tidegate.toml"
        self._settings.write_text(
            _SETTINGS.format(
                prefix=self.prefix,
                partitions=PARTITIONS,
                warehouse=self.warehouse.resolve(),
                from_items=self._spark_from_items,
            ),
            "utf-8",
        )
        settings = TopicSettings(prefix=self.prefix, partitions=PARTITIONS)
        create_topics({"bootstrap.servers": self.servers}, settings, DECIDERS)
        self.audience = Audience(self.servers, self.prefix, PARTITIONS)

    def publisher(self) -> Publisher:
        """Make a publisher for upstream's part."""
        return Publisher(self.servers, said_by="demo-upstream", prefix=self.prefix)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the services, then the broker."""
        with self._story.step("Everything is stopped"):
            for child in self._children.values():
                if child.exit_code is None and not child.end(signal.SIGTERM, 20):
                    child.end(signal.SIGKILL, 20)
            self._stack.close()

    def _prepare_spark(self) -> None:
        """Choose Spark's Java, keep it on the loopback interface and its warnings off screen."""
        quiet = self.folder / "spark-conf"
        quiet.mkdir()
        (quiet / "log4j2.properties").write_text(_QUIET, "utf-8")
        use_fitting_java()
        os.environ["SPARK_CONF_DIR"] = str(quiet.resolve())
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

    def start_services(self, names: Sequence[str] = tuple(SERVICES)) -> None:
        """Start each service as a process of its own."""
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = self.servers
        (self.folder / "logs").mkdir(exist_ok=True)
        for name in names:
            command = [sys.executable, "-m", "tidegate.cli", "run", name, "-v"]
            settings = ["--config", str(self._settings)]
            log = self.folder / "logs" / f"{name}.log"
            self._children[name] = Child([*command, *settings], log)

    def kill_services(self, names: Sequence[str] = tuple(SERVICES)) -> None:
        """SIGKILL: no farewell, no last words."""
        for name in names:
            self._children[name].end(signal.SIGKILL, 20)

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        """Look again and again until there is an answer.

        Raises:
            TidegateError: there was none in time, or a service has died.
        """
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if answer := look():
                return answer
            self._check_alive()
            time.sleep(0.1)
        raise TidegateError(
            f"{what} did not happen in {PATIENCE:.0f} s; see {self.folder / 'logs'}"
        )

    def wait_until_idle(self) -> None:
        """Wait until every service has acknowledged everything that it hears."""
        self.wait_for("an empty backlog", lambda: self.audience.lag() == 0 or None)

    def _check_alive(self) -> None:
        for name, child in self._children.items():
            if child.exit_code not in (None, -signal.SIGKILL):
                raise TidegateError(f"{name} has died:\n{child.tail()}")
