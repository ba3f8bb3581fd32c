"""Events and services for tests of the runtime."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import ClassVar, cast

from support.memory_bus import MemoryBus
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.rows.store import RowType, Store
from tidegate.coordinator.subject import Effects
from tidegate.events import (
    AttemptFailed,
    Command,
    CommitCompleted,
    CommitFlagged,
    Event,
    LockReleased,
    Outcome,
    SavepointCreated,
    SavepointRequested,
    TaskEnded,
    TaskIssued,
)
from tidegate.events.topics import ALL_TOPICS, CARRIED, TASK_TOPIC, topic_of
from tidegate.events.wire import Wire, command_of, original_of
from tidegate.publisher import Message
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.tables.claim import Claim, Task
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim
from tidegate.tables.warehouse import Warehouse

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def commit(number: int, table: str = "lake.sales.orders") -> CommitCompleted:
    return CommitCompleted.model_validate(
        {
            "table": table,
            "location": "/lake/" + table.rsplit(".", 1)[-1],
            "occurred_at": NOON,
            "source": "ingest",
            "instant": f"{20261121120000000 + number}",
            "action": "commit",
        }
    )


def release(lock_id: int, table: str = "lake.sales.orders") -> LockReleased:
    return LockReleased.model_validate(
        {
            "table": table,
            "location": "/lake/" + table.rsplit(".", 1)[-1],
            "occurred_at": NOON,
            "source": "bridge",
            "lock_id": lock_id,
        }
    )


def savepoint_request(number: int, table: str = "lake.sales.orders") -> SavepointRequested:
    return SavepointRequested.about(
        commit(number, table),
        instant=commit(number, table).instant,
        requested_by="ana",
        source="test",
        occurred_at=NOON,
    )


_NUMBERS = count(1)


def message(event: Event, prefix: str = "tidegate") -> Message:
    """An event's message; a command that only tasks carry is the next task of its table."""
    if isinstance(event, Command) and type(event) in CARRIED:
        return task_message(event, prefix)
    return Wire().serialize(event, topic_of(type(event)).name(prefix))


def task_message(
    command: Command, prefix: str = "tidegate", grounds: Sequence[Message] = ()
) -> Message:
    """The message of the next task of a command's table: what a worker reads."""
    task = task_of(command, next(_NUMBERS), prefix, grounds=grounds)
    return Wire().serialize(task, TASK_TOPIC.name(prefix))


def task_of(  # noqa: PLR0913, PLR0917 - the parts of a task
    command: Command,
    number: int = 1,
    prefix: str = "tidegate",
    inner: Message | None = None,
    at: datetime = NOON,
    grounds: Sequence[Message] = (),
) -> TaskIssued:
    inner = inner or Wire().serialize(command, topic_of(type(command)).name(prefix))
    return TaskIssued.about(
        command,
        occurred_at=NOON,
        source="coordinator",
        number=number,
        command=original_of(inner, at),
        grounds=tuple(original_of(ground, at) for ground in grounds),
    )


def ended(task: TaskIssued, **fields: object) -> TaskEnded:
    fields = {"source": "cleaner", "occurred_at": NOON, "number": task.number} | fields
    return TaskEnded.about(task, **fields)


def tasks_on(bus: MemoryBus, prefix: str = "tidegate") -> list[TaskIssued]:
    """The tasks, once each."""
    found = [it for it in events_on(bus, f"{prefix}.tasks") if isinstance(it, TaskIssued)]
    return list({task.event_id: task for task in found}.values())


def end_tasks(bus: MemoryBus, loop: CoordinatorLoop) -> None:
    """Let the coordinator work off what there is, and end every task that it issues."""
    known: set[str] = set()
    while True:
        while loop.step(0):
            pass
        new = [task for task in tasks_on(bus) if task.event_id not in known]
        if not new:
            return
        known |= {task.event_id for task in new}
        bus.send([message(ended(task)) for task in new])


def commands_on(bus: MemoryBus, prefix: str = "tidegate") -> list[Command]:
    """The commands that tasks carry, once each, in the order of their first task."""
    return [command_of(task, Wire()) for task in tasks_on(bus, prefix)]


def deserialized(wire: Wire, serialized: Message) -> Event:
    return wire.deserialize(serialized.key, serialized.value, serialized.headers)


def events_on(bus: MemoryBus, topic: str) -> list[Event]:
    return [Wire().deserialize(record.key, record.value) for record in bus.records(topic)]


def outcomes_on(bus: MemoryBus, topic: str = "tidegate.outcomes") -> list[Event]:
    """The outcomes, without the ends of tasks and failed attempts."""
    found = events_on(bus, topic)
    return [event for event in found if not isinstance(event, TaskEnded | AttemptFailed)]


def memory_bus(partitions: int = 3) -> MemoryBus:
    return MemoryBus([topic.name() for topic in ALL_TOPICS], partitions)


class EveryThird:
    """Publishes an outcome for every third event of a table, which shows any miscount."""

    consumes: ClassVar[tuple[type[Event], ...]] = (CommitCompleted, LockReleased)
    row_types: ClassVar[Sequence[RowType]] = (RowType("counted", ("events",)),)

    def restored(self, rows: Store) -> None:
        pass

    def handle(self, event: Event, rows: Store, at: datetime) -> Effects:
        counted = counted_of(rows, event.table)
        if counted < 2:
            rows.put("counted", event.table, columns=(counted + 1,))
            return Effects()
        rows.drop("counted", event.table)
        third = CommitFlagged.about(
            event, instant="none", flag="third", message="a third", source="test", occurred_at=at
        )
        return Effects(outcomes=[third])

    def next_due(self, rows: Store) -> int | None:  # noqa: ARG002 - the protocol's
        return None

    def due(self, rows: Store, at: datetime) -> Effects:  # noqa: ARG002 - the protocol's
        return Effects()


def counted_of(rows: Store, table: str = "lake.sales.orders") -> int:
    """How many events of a table `EveryThird` has seen since its last command."""
    found = rows.one("select events from counted where tbl = ?", table)
    return 0 if found is None else int(found[0])


class FreeClaim(Claim):
    """The claim of a worker that changes no table: nothing is recorded anywhere."""

    def check(self) -> None:
        """Never raise."""

    check_if_old = outlast = check

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """The outcomes."""
        return outcomes


class Tableless:
    """The claim of an executor that changes no table."""

    def claim(self, command: Command, task: Task) -> Claim:  # noqa: ARG002 - the protocol's
        return FreeClaim(cast("Warehouse", None), "", task.number, task=task)


@dataclass
class Recorder(Tableless):
    """An executor that records its commands, and raises the faults that it was given."""

    name: ClassVar[str] = "recorder"
    consumes: ClassVar[tuple[type[Command], ...]] = (SavepointRequested,)
    faults: list[Exception] = field(default_factory=list[Exception])
    asked: list[str] = field(default_factory=list[str])

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        assert isinstance(command, SavepointRequested)
        self.asked.append(str(command.instant))
        if self.faults:
            raise self.faults.pop(0)
        yield SavepointCreated.about(
            command,
            instant=str(command.instant),
            partitions=1,
            files=1,
            duration_ms=1,
            source=self.name,
            occurred_at=NOON,
        )


def work_off(loop: ExecutorLoop) -> None:
    deadline = time.monotonic() + 60
    rests = 0
    while rests < 2:
        rests = 0 if loop.step(0.001) or loop.pending else rests + 1
        assert time.monotonic() < deadline, "the loop still has work"
