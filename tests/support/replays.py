"""A deployment of a test's own: its services run in this process, `tidegate replay` is called."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from support.hudi_tables import at
from support.samples import ended
from support.topic_monitor import TopicMonitor
from support.waiting import wait_for
from tidegate.cli import app
from tidegate.errors import TransientError
from tidegate.events import (
    Command,
    Event,
    SavepointsCheckRequested,
    TaskEnded,
    TaskIssued,
    derived_id,
)
from tidegate.events.topics import ALL_TOPICS
from tidegate.events.wire import Wire, command_of
from tidegate.ops.groups import Groups
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import SERVICES, assemble
from tidegate.service.catalogue import inputs_of
from tidegate.service.settings import Settings

EVERY_COMMIT = """
[[savepoints]]
tables = "*.customers"
when = "every_commit"
lifetime = "forever"
"""


@dataclass(frozen=True)
class Place:
    """A deployment: its settings, its tables, and the commands run on it."""

    folder: Path
    servers: str
    prefix: str

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def settings(self, rules: str = EVERY_COMMIT) -> Settings:
        file = self.folder / "tidegate.toml"
        file.write_text(
            f'[kafka]\n"bootstrap.servers" = "{self.servers}"\n'
            f'[topics]\nprefix = "{self.prefix}"\npartitions = 2\n'
            f'[warehouse]\nroots = ["{self.lake}"]\n[spark]\nmin_items = 100000\n'
            '[cleaning]\nconfirm_with = "nothing"\n' + rules
        )
        return Settings.load(file)

    def create_topics(self) -> None:
        """Create what is missing, and wait until the broker leads all of it."""
        settings = self.settings()
        create_topics(settings.connection(), settings.topics)
        wait_for("the leaders of the topics", self._are_led)

    def _are_led(self) -> bool:
        connection: dict[str, str | int | bool] = {"bootstrap.servers": self.servers}
        bus = KafkaBus(connection)
        try:
            return all(bus.spans(topic.name(self.prefix)) for topic in ALL_TOPICS)
        except TransientError:
            return False
        finally:
            bus.close()

    @contextmanager
    def running(self, *names: str, rules: str = EVERY_COMMIT) -> Generator[None]:
        settings, stop = self.settings(rules), threading.Event()
        bus = KafkaBus(settings.connection(), {"session.timeout.ms": 6000})
        loops = [assemble(name, settings, bus) for name in names or SERVICES]
        threads = [threading.Thread(target=loop.run, args=(stop,)) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread, loop in zip(threads, loops, strict=True):
                thread.join()
                loop.close()
            bus.close()

    @property
    def audience(self) -> TopicMonitor:
        return TopicMonitor(self.servers, self.prefix, 2)

    def publisher(self) -> Publisher:
        return Publisher(self.servers, source="test", prefix=self.prefix)

    def call(self, *arguments: str) -> dict[str, Any]:
        """Run `tidegate replay`; what it would change or changed."""
        file = str(self.folder / "tidegate.toml")
        answer = CliRunner().invoke(app, ["replay", *arguments, "--json", "-c", file])
        if answer.exception and not isinstance(answer.exception, SystemExit):
            raise answer.exception
        assert answer.exit_code == 0, answer.output
        shown: dict[str, Any] = json.loads(answer.output)
        return shown

    def subject(self, table: str) -> dict[str, Any]:
        return {"table": f"lake.shop.{table}", "location": str(self.lake / table)}

    def outcome_ids(self) -> set[str]:
        return {event.event_id for event in self.outcomes()}

    def outcomes(self) -> list[Event]:
        """The outcomes, without the ends of tasks."""
        return [event for event in self.audience.outcomes() if not isinstance(event, TaskEnded)]

    def tasks(self) -> list[TaskIssued]:
        """The tasks, once each, in the order of their first message."""
        found = [event for event in self.audience.commands() if isinstance(event, TaskIssued)]
        return list({task.event_id: task for task in found}.values())

    def commands(self) -> list[Command]:
        """The commands that tasks carry, in the order of their tasks."""
        return [command_of(task, Wire()) for task in self.tasks()]

    def end_tasks(self) -> None:
        """End every task, as workers would, until the running coordinator issues no more."""
        while True:
            self.wait_until_idle("coordinator")
            over = {event.caused_by for event in self.audience.outcomes()}
            under_way = [task for task in self.tasks() if task.event_id not in over]
            if not under_way:
                return
            with self.publisher() as publisher:
                publisher.publish(*map(ended, under_way))

    def wait_until_idle(self, *names: str) -> None:
        """Until these groups have nothing left to read, in a second look too."""
        for _ in range(2):
            wait_for("an empty backlog", lambda: not any(map(self.unread, names or SERVICES)))
            time.sleep(0.3)

    def unread(self, service: str) -> int:
        connection: dict[str, str | int | bool] = {"bootstrap.servers": self.servers}
        bus = KafkaBus(connection)
        groups = Groups(connection)
        topics = {found.name(self.prefix) for found in inputs_of(service)}
        held = {part: span for topic in topics for part, span in bus.spans(topic).items()}
        stands = groups.committed(f"{self.prefix}.{service}", list(held))
        bus.close()
        return sum(span.stop - stands.get(part, span.start) for part, span in held.items())


def checks(place: Place) -> list[SavepointsCheckRequested]:
    """The checks of savepoints that tasks carry, in the order of the tasks."""
    return [
        command for command in place.commands() if isinstance(command, SavepointsCheckRequested)
    ]


def commits_checked(place: Place) -> list[tuple[str, str]]:
    """The tables and instants of the commits after which a check was requested, in that order."""
    found = checks(place)
    instants = {
        derived_id("CommitCompleted", table, at(minute)): at(minute)
        for table in {check.table for check in found}
        for minute in range(1, 10)
    }
    return [(check.table.rsplit(".", 1)[-1], instants[check.caused_by or ""]) for check in found]


def publish_commits(place: Place, minutes: Sequence[int], *tables: str) -> None:
    with place.publisher() as publisher:
        for minute in minutes:
            for table in tables or ("customers",):
                publisher.commit(**place.subject(table), instant=at(minute))
