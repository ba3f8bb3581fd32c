"""A deployment of the test's own on a running broker: topics, settings, services as processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from support.waiting import wait_for
from tidegate.embedded.process import Child
from tidegate.events import Event
from tidegate.events.wire import Wire
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.runtime.bus import Record
from tidegate.runtime.kafka.records import as_record
from tidegate.service.settings import TopicSettings

BELIEVED = ("[cleaning]", 'confirm_with = "nothing"')
"""Settings of a deployment without a Metastore whose cleanings delete."""


class Deployment:
    """Makes the topics; starts services with `run`; ends them all when its block is left."""

    def __init__(  # noqa: PLR0913 - all but three are options by name
        self,
        servers: str,
        prefix: str,
        folder: Path,
        *,
        partitions: int = 1,
        replication: int = 1,
        client: Mapping[str, str | int | bool] | None = None,
        settings: str = "",
        roots: Sequence[str] = (),
    ) -> None:
        """Take the broker and the names; `settings` is more TOML for every service.

        By default the only root is the folder.
        """
        self.servers, self.prefix, self.folder = servers, prefix, folder
        self.connection = {**(client or {}), "bootstrap.servers": servers}
        self.topics = TopicSettings(prefix=prefix, partitions=partitions, replication=replication)
        self._stack = ExitStack()
        create_topics(self.connection, self.topics)
        self._more, self._roots = settings, list(roots or [str(folder)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def settings_file(self, name: str, client: Mapping[str, str | int | bool]) -> Path:
        connection = {**self.connection, **client}
        lines = [
            "[kafka]",
            *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in connection.items()),
            "[topics]",
            f'prefix = "{self.prefix}"',
            f"partitions = {self.topics.partitions}",
            "[warehouse]",
            f"roots = {json.dumps(self._roots)}",
            *([] if "[bridge.metastore]" in self._more else BELIEVED),
            "[services]",
            "session_timeout_ms = 3000",
            self._more,
        ]
        file = self.folder / f"{name}.toml"
        file.write_text("\n".join(lines))
        return file

    def run(
        self,
        service: str,
        name: str = "",
        client: Mapping[str, str | int | bool] | None = None,
        program: Sequence[str] = ("-m", "tidegate.cli"),
        command: str = "run",
    ) -> Child:
        """Start a service as a process of its own; its log is in the deployment's folder.

        `command` is the subcommand that takes the service's name.
        """
        name = name or service
        file = self.settings_file(name, client or {})
        return self.start(name, command, service, "-v", "-c", str(file), program=program)

    def start(
        self, name: str, *arguments: str, program: Sequence[str] = ("-m", "tidegate.cli")
    ) -> Child:
        """Start a command as a process of its own; its log is named like `name`."""
        # the environment's broker would win over the settings'
        line = ["/usr/bin/env", "-u", "KAFKA_BOOTSTRAP_SERVERS", sys.executable]
        line += [*program, *arguments]
        child = Child(line, self.folder / f"{name}.log")
        self._stack.callback(end, child)
        return child

    def publisher(self) -> Publisher:
        return self._stack.enter_context(
            Publisher(self.servers, source="test", prefix=self.prefix, config=self.connection)
        )

    def records(self, suffix: str) -> list[Record]:
        """Every record that is committed on a topic."""
        consumer = Consumer(
            {
                **self.connection,
                "group.id": f"{self.prefix}.people",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        parts = range(self.topics.partitions)
        topic = f"{self.prefix}.{suffix}"
        consumer.assign([TopicPartition(topic, number, 0) for number in parts])
        taken: list[Record] = []
        ends: set[int] = set()
        try:
            while len(ends) < len(parts):
                for message in consumer.consume(1000, 0.1):
                    if message.error() is None:
                        taken.append(as_record(message))
                    else:
                        ends.add(int(message.partition() or 0))
        finally:
            consumer.close()
        return taken

    def events(self, suffix: str) -> list[Event]:
        return [Wire().deserialize(record.key, record.value) for record in self.records(suffix)]


def end(child: Child) -> None:
    """SIGTERM; SIGKILL for a process that does not end."""
    if child.exit_code is None:
        os.kill(child.pid, signal.SIGCONT)
        if not child.end(signal.SIGTERM, 20):
            child.end(signal.SIGKILL, 20)


def exit_code(child: Child, seconds: float = 120) -> int:
    """Wait for the end of a process."""
    wait_for(f"the end of {child.log.stem}", lambda: child.exit_code is not None, seconds)
    assert child.exit_code is not None
    return child.exit_code
