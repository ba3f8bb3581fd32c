"""60,000 tasks over 500 tables while processes are killed: none is lost, none is repeated.

Each table is cleaned, and the cleaning undone, again and again. An undo puts back what the cleaning
has moved: a cleaning that is repeated after its undo, or two in the wrong order, stay visible.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from support.acid import FIVE_LISTINGS, INSERTS, build, tree
from support.acid_events import released, vacuum
from support.deployment import Deployment
from tidegate.cleaning.quarantine import FOLDER, RECORD, UNDONE
from tidegate.coordinator.rows.position import POSITION_KEY
from tidegate.coordinator.rows.records import key_parts
from tidegate.embedded.process import Child
from tidegate.events import (
    AttemptFailed,
    CleaningStarted,
    CleaningUndone,
    CleaningUndoRequested,
    DirectoriesCleaned,
    Event,
    TaskEnd,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.topics import CHANGELOG, DEAD_LETTERS, OUTCOME_TOPIC, TASK_TOPIC
from tidegate.events.wire import Wire
from tidegate.ops.groups import lags_of_service
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.retry import BROKER_RETRIES
from tidegate.tables.claim import HIVE

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SERVICES: Final = {f"{name}-{n}": name for name in ("coordinator", "cleaner") for n in (1, 2)}
PARTITIONS, THREADS = 6, 8
SETTINGS: Final = f'threads = {THREADS}\n[[cleaning.rules]]\ntables = "*"\nmode = "quarantine"'
COPIED: Final = 0.05
"""Of the cleanings; the copy of a task is published after its undo, as a replay would do it."""
OPEN: Final = {"task", "queued", "failed", "unconfirmed", "stopping", "vacuum", "outbox"}
"""The coordinator's rows that say that something is not over."""
STILL_AFTER: Final = 180
"""Seconds without a new outcome after which something is lost."""


@dataclass
class Run:
    """Publishes what leads to the tasks, and kills a process now and then."""

    deployment: Deployment
    tables: int
    cycles: int
    seconds_between: tuple[float, float]
    kills: Counter[str] = field(default_factory=Counter[str])
    copies: int = 0
    _services: dict[str, Child] = field(default_factory=dict[str, Child])
    _next_kill: float = 0.0
    _tasks: dict[tuple[str, int], TaskIssued] = field(default_factory=dict[Any, TaskIssued])
    _cycle: Counter[str] = field(default_factory=Counter[str])
    _dice: random.Random = field(default_factory=lambda: random.Random(20261128))  # noqa: S311

    @cached_property
    def locations(self) -> dict[str, Path]:
        lake = self.deployment.folder / "lake"
        return {f"hive.lake.t{n:03}": lake / f"t{n:03}" for n in range(self.tables)}

    def play(self) -> None:
        """Publish the first vacuum of each table, then what follows each outcome."""
        for name, service in SERVICES.items():
            self._services[name] = self.deployment.run(service, name)
        publisher, seen = self.deployment.publisher(), set[str]()
        events = Consumer({**self.deployment.connection, "group.id": "test", "log_level": 0})
        topics = [topic.name(self.deployment.prefix) for topic in (OUTCOME_TOPIC, TASK_TOPIC)]
        events.assign(
            [TopicPartition(t, number, 0) for t in topics for number in range(PARTITIONS)]
        )
        for table in self.locations:
            publisher.publish(*self._vacuum(table))
        moved = self._next_kill = time.monotonic()
        while left := [table for table, n in self._cycle.items() if n <= self.cycles]:
            messages = [m for m in events.consume(1000, 0.2) if m.error() is None]
            arrived = [Wire().deserialize(m.key(), m.value()) for m in messages]
            new = {event.event_id: event for event in arrived if event.event_id not in seen}
            seen.update(new)
            publisher.publish(*chain.from_iterable(map(self._after, new.values())))
            moved = time.monotonic() if new else moved
            assert time.monotonic() < moved + STILL_AFTER, f"no outcome, {len(left)} tables: {left}"
            self._disturb()
        events.close()
        self._wait_until_idle()

    def _after(self, event: Event) -> Iterable[Event]:
        match event:
            case TaskIssued():
                self._tasks[event.table, event.number] = event
            case DirectoriesCleaned():
                fields = event.model_dump(include={"table", "location", "occurred_at", "source"})
                fields |= {"cleaning": event.caused_by, "caused_by": event.event_id}
                who = {"requested_by": "ana", "reason": "a reader had stalled"}
                yield CleaningUndoRequested.model_validate(fields | who)
            case CleaningUndone():
                cleaning = self._tasks.pop((event.table, 2 * self._cycle[event.table] - 1), None)
                if cleaning and self._dice.random() < COPIED:
                    self.copies += 1
                    yield cleaning
                yield from self._vacuum(event.table)
            case _:
                pass

    def _vacuum(self, table: str) -> Iterable[Event]:
        """The next vacuum of a table, and the end of its only reader; none after the last."""
        self._cycle[table] += 1
        lock = self._cycle[table]
        if lock <= self.cycles:
            snapshot = f"{table.removeprefix('hive.')}:3:9223372036854775807::"
            for event in (
                vacuum(lock, table=table, snapshot=snapshot),
                released(lock, table=table),
            ):
                yield event.model_copy(update={"location": str(self.locations[table])})

    def _disturb(self) -> None:
        """Kill a process if it is time, and start it again at once; none may end by itself."""
        for child in self._services.values():
            assert child.exit_code is None, child.tail()
        if time.monotonic() > self._next_kill:
            self._next_kill = time.monotonic() + self._dice.uniform(*self.seconds_between)
            name = self._dice.choice(list(SERVICES))
            self._services[name].end(signal.SIGKILL, 20)
            self._services[name] = self.deployment.run(SERVICES[name], name)
            self.kills[SERVICES[name]] += 1

    def _wait_until_idle(self) -> None:
        """Wait until the services have read everything, repeats too; then end them."""
        metadata, until = KafkaMetadata(self.deployment.connection), time.monotonic() + STILL_AFTER

        def lag() -> int:
            prefix, names = self.deployment.prefix, set(SERVICES.values())
            lags = [lags_of_service(metadata, prefix, name).values() for name in names]
            return sum(lag.records for lag in chain(*lags))

        while left := BROKER_RETRIES.call(lag):
            assert time.monotonic() < until, f"{left} records are not read"
            time.sleep(0.5)
        for child in self._services.values():
            assert child.end(signal.SIGTERM, 60), child.tail()


def check_topics(run: Run) -> dict[str, dict[str, str]]:
    """Each number is issued once, in order, and has one last outcome.

    Returns:
        For each table its cleanings, each with the request that undid it.
    """
    tasks: dict[str, dict[str, int]] = defaultdict(dict)
    for task in run.deployment.events(TASK_TOPIC.suffix):
        assert isinstance(task, TaskIssued)
        tasks[task.table].setdefault(task.event_id, task.number)
    numbers = list(range(1, 2 * run.cycles + 1))
    assert [[*ids.values()] for ids in tasks.values()] == [numbers] * run.tables

    last: dict[str, list[int | str]] = defaultdict(list)
    undone: dict[str, dict[str, str]] = defaultdict(dict)
    moved: dict[str | None, set[str]] = defaultdict(set)
    seen: dict[str, Event] = {}
    for outcome in run.deployment.events(OUTCOME_TOPIC.suffix):
        if isinstance(outcome, DirectoriesCleaned | CleaningStarted):
            moved[outcome.caused_by].update(outcome.directories)
        first = seen.setdefault(outcome.event_id, outcome)
        if first is not outcome:  # what a later attempt begins with may be less
            assert first == outcome or not isinstance(outcome, DirectoriesCleaned | CleaningUndone)
            continue
        match outcome:
            case CleaningUndone():
                assert outcome.directories == INSERTS
                undone[outcome.table][outcome.cleaning] = str(outcome.caused_by)
            case TaskEnded(end=TaskEnd.ANSWERED):
                assert tasks[outcome.table][str(outcome.caused_by)] == outcome.number
                last[outcome.table].append(outcome.number)
        if not isinstance(outcome, AttemptFailed | CleaningStarted | TaskEnded):
            last[outcome.table].append(type(outcome).__name__)
    story = [("DirectoriesCleaned", n, "CleaningUndone", n + 1) for n in numbers[::2]]
    assert [*last.values()] == [list(chain(*story))] * run.tables
    assert len(moved) == run.tables * run.cycles
    assert all(found == set(INSERTS) for found in moved.values())
    return undone


def check_tables(run: Run, before: dict[str, Any], undone: dict[str, dict[str, str]]) -> None:
    """All that a cleaning moved, its own undo has put back; nothing else has changed."""
    last, more = 2 * run.cycles, 0
    for table, location in run.locations.items():
        found: dict[str, set[str]] = defaultdict(set)
        for entry in (location / FOLDER).iterdir():
            names = {path.name for path in entry.iterdir()}
            if not names:  # killed between the folder and its record
                more += 1
                continue
            assert names == {RECORD, UNDONE}
            cleaning = json.loads((entry / RECORD).read_text())["cleaning"]
            more += cleaning in found
            found[cleaning].add(json.loads((entry / UNDONE).read_text())["request"])
        assert found == {cleaning: {request} for cleaning, request in undone[table].items()}
        claims = {path.name for path in (location / HIVE / "tasks").iterdir()} - {f"{last}.again1"}
        assert claims == {f"{last}", f"{last}.done"}
        assert {k: size for k, size in tree(location).items() if k[0] != "."} == before[table]
    assert more <= run.kills["cleaner"] * THREADS, "more than killed processes had begun"


def check_rows(run: Run) -> None:
    """No task is running, and no command, vacuum or message waits."""
    latest = {record.key: record.value for record in run.deployment.records(CHANGELOG.suffix)}
    rows = [key_parts(k) for k, v in latest.items() if k and v and k != POSITION_KEY]
    assert {table for table, kind, _ in rows if kind == "number"} == set(run.locations)
    assert [row for row in rows if row[1] in OPEN] == []


_SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]


@pytest.mark.parametrize(
    ("tables", "cycles", "seconds_between"),
    [
        pytest.param(100, 8, (1, 4), marks=pytest.mark.full, id="1,600"),
        pytest.param(500, 60, (2, 10), marks=_SOAK, id="60,000"),
    ],
)
def test_of_many_tasks_with_kills_none_is_lost_repeated_or_out_of_order(
    deployment: Deployment, tables: int, cycles: int, seconds_between: tuple[float, float]
) -> None:
    run = Run(deployment, tables, cycles, seconds_between)
    for location in run.locations.values():
        build(location, FIVE_LISTINGS[1].directories)
    before = {table: tree(location) for table, location in run.locations.items()}
    run.play()
    check_tables(run, before, check_topics(run))
    check_rows(run)
    assert run.copies
    assert deployment.records(DEAD_LETTERS.suffix) == []
