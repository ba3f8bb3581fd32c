"""What members that come, go and die cost a group, on the embedded broker.

    .venv/bin/python benchmarks/rebalances.py [--only members] [--kills 20] [--json]

1. Five members join and three leave while commands are executed: the share that is run twice.
2. The same with deciders: changelog partitions that are read although they did not move.
3. A decider's process is killed by SIGKILL and started again with the same instance id: from the
   kill to the next task. The process's own start-up (Python and its imports) is in it, and is
   said beside it.
4. One process with very many partitions and 1,024 file descriptors: from its start to its last
   partition's state.
"""

from __future__ import annotations

import argparse
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, TopicPartition
from report import Line, line, show

from support.kafka import bootstrap
from support.samples import Tableless, ended, task_of
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.embedded import EmbeddedBroker
from tidegate.embedded.process import Child
from tidegate.errors import DeliveryError
from tidegate.events import (
    Command,
    Event,
    LockHold,
    LockReleased,
    Outcome,
    SavepointCreated,
    SavepointRequested,
    TaskIssued,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.wire import Wire
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.runtime.bus import ChangelogRecord
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.changelog import KafkaChangelog
from tidegate.service.settings import TopicSettings
from tidegate.tables.task_numbers import NO_CLAIM, AnyClaim

NOW: Final = datetime(2026, 11, 21, tzinfo=UTC)
PARTITIONS: Final = 6
TABLES: Final = 100
JOINS_AND_LEAVES: Final = (1, 1, -1, 1, 1, -1, 1, -1)
SECONDS_BETWEEN: Final = 3.0
EXECUTION_SECONDS: Final = 0.01
SESSION: Final = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
DESCRIPTORS: Final = 1024


def _subject(table: int) -> dict[str, Any]:
    name = f"hive.db.t{table % TABLES}"
    return {"table": name, "location": f"/w/{name}", "occurred_at": NOW, "source": "bench"}


def vacuum(number: int) -> VacuumFinished:
    """A vacuum that waits for one lock of its own."""
    return VacuumFinished.model_validate(
        {
            **_subject(number),
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": f"db.t{number % TABLES}:3:9223372036854775807::",
            "own_lock_id": number,
            "locks": (LockHold(lock_id=number, owner="ana@notebook"),),
        }
    )


def release(number: int) -> LockReleased:
    """The release of its lock."""
    return LockReleased.model_validate({**_subject(number), "lock_id": number})


def savepoint_request(number: int) -> SavepointRequested:
    """A command."""
    return SavepointRequested.model_validate(
        {
            **_subject(number),
            "event_id": f"bench-{number}",
            "instant": f"{20261121120000000 + number}",
            "requested_by": "bench",
        }
    )


class Busy(Tableless):
    """An executor that takes a moment for each command, and counts how often each is run."""

    name: ClassVar[str] = "savepoint-writer"
    consumes: ClassVar[tuple[type[Command], ...]] = (SavepointRequested,)
    runs: ClassVar[Counter[str]] = Counter()

    def execute(
        self,
        command: Command,
        claim: AnyClaim = NO_CLAIM,  # noqa: ARG002 - the protocol's
        grounds: object = (),  # noqa: ARG002 - the protocol's
    ) -> Iterator[Outcome]:
        """Wait, and say that it is done."""
        time.sleep(EXECUTION_SECONDS)
        self.runs[command.event_id] += 1
        yield SavepointCreated.about(
            command,
            instant="20261121120000000",
            partitions=1,
            files=1,
            duration_ms=1,
            source=self.name,
            occurred_at=NOW,
        )


class Member:
    """A member of a group, on a thread and with connections of its own."""

    def __init__(self, servers: str, make: Callable[[KafkaBus], Any]) -> None:
        """Join."""
        self._bus = KafkaBus({"bootstrap.servers": servers}, SESSION)
        self._loop, self._stop = make(self._bus), threading.Event()
        self._thread = threading.Thread(target=self._loop.run, args=(self._stop,))
        self._thread.start()

    def leave(self) -> None:
        """Leave."""
        self._stop.set()
        self._thread.join()
        self._loop.close()
        self._bus.close()


class CountedReads:
    """Counts, in this process, which partitions of changelogs are read, and which were kept."""

    def __init__(self) -> None:
        """Count from now on."""
        self.kept_and_read, self.acquired = 0, 0
        acquire, counted = KafkaChangelog.acquire, self

        def counting(
            log: KafkaChangelog, numbers: Collection[int], kept: Collection[int] = ()
        ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
            counted.acquired += len(numbers)
            read: set[int] = set()
            for number, records in acquire(log, numbers, kept):
                read.add(number)
                yield number, records
            counted.kept_and_read += len(read & set(kept))

        KafkaChangelog.acquire = counting  # type: ignore[method-assign, assignment]


@contextmanager
def deployment(servers: str, partitions: int) -> Iterator[tuple[str, Publisher]]:
    """Fresh topics, and a publisher."""
    prefix = f"bench-{uuid.uuid4().hex[:6]}"
    config = {"bootstrap.servers": servers}
    create_topics(config, TopicSettings(prefix=prefix, partitions=partitions))
    with Publisher(servers, source="bench", prefix=prefix) as publisher:
        yield prefix, publisher


def joins_and_leaves(servers: str) -> Iterator[Line]:
    """1 and 2."""
    with deployment(servers, PARTITIONS) as (prefix, publisher):
        Busy.runs.clear()
        sent = _while_members_change(
            servers,
            lambda bus: ExecutorLoop(Busy(), bus, prefix),
            lambda number: publisher.publish(
                *(task_of(savepoint_request(n), n + 1, prefix) for n in number)
            ),
            lambda: len(Busy.runs),
        )
    again = 100 * (sum(Busy.runs.values()) - sent) / sent
    yield line(f"commands run twice of {sent:,}, percent", again, 1)
    with deployment(servers, PARTITIONS) as (prefix, publisher):
        reads = CountedReads()
        _while_members_change(
            servers,
            lambda bus: CoordinatorLoop(ReaderGate(), bus, prefix),
            lambda number: publisher.publish(*map(vacuum, number)),
            lambda: None,
        )
    what = f"partitions that stayed and were read, of {reads.acquired} assigned"
    yield line(what, reads.kept_and_read, 0.5)


def _while_members_change(
    servers: str,
    make: Callable[[KafkaBus], Any],
    publish: Callable[[range], object],
    count: Callable[[], int | None],
) -> int:
    """Publish a hundred at a time while members join and leave; return how many in all."""
    members = [Member(servers, make)]
    sent, until = 0, time.monotonic() + SECONDS_BETWEEN
    changes = list(JOINS_AND_LEAVES)
    while changes or time.monotonic() < until:
        publish(range(sent, sent + 100))
        sent += 100
        time.sleep(0.2)
        if changes and time.monotonic() > until:
            until = time.monotonic() + SECONDS_BETWEEN
            if changes.pop(0) > 0:
                members.append(Member(servers, make))
            else:
                members.pop(0).leave()
    deadline = time.monotonic() + 120
    while (seen := count()) is not None and seen < sent and time.monotonic() < deadline:
        time.sleep(0.1)
    for member in members:
        member.leave()
    return sent


def kills(servers: str, count: int, folder: Path) -> Iterator[Line]:
    """3."""
    with deployment(servers, PARTITIONS) as (prefix, publisher):
        settings = folder / "kills.toml"
        settings.write_text(
            f'[kafka]\n"bootstrap.servers" = "{servers}"\n[topics]\nprefix = "{prefix}"\n'
            f'partitions = {PARTITIONS}\n[services]\ninstance_id = "bench"\n'
        )
        tasks = _consumer(servers, f"{prefix}.tasks", PARTITIONS)
        publisher.publish(*(vacuum(number) for number in range(count + 1)))
        process = _start(settings, folder)
        publisher.publish(release(0))
        seen: set[str] = set()
        publisher.publish(ended(_next(tasks, seen)))
        taken: list[float] = []
        starts: list[float] = []
        for number in range(1, count + 1):
            starts.append(_start_up())
            began = time.perf_counter()
            process.end(signal.SIGKILL, 20)
            process = _start(settings, folder)
            publisher.publish(release(number))
            task = _next(tasks, seen)
            taken.append(time.perf_counter() - began)
            publisher.publish(ended(task))
        process.end(signal.SIGTERM, 30)
        tasks.close()
    what = f"SIGKILL to the next task, of {count}, seconds"
    yield line(f"{what}, p99", _p99(taken), 2)
    yield line(f"{what}, median", statistics.median(taken))
    what = "the start-up of Python and of its imports alone, in turns with it, seconds"
    yield line(f"{what}, p99", _p99(starts), None)
    yield line(f"{what}, median", statistics.median(starts))


def _start(settings: Path, folder: Path) -> Child:
    command = ["/usr/bin/env", "-u", "KAFKA_BOOTSTRAP_SERVERS", sys.executable]
    command += ["-m", "tidegate.cli", "run", "coordinator", "-c", str(settings)]
    return Child(command, folder / "gate.log")


def _start_up() -> float:
    """The seconds that Python and the imports of a service take, before its first line."""
    code = "import tidegate.cli, tidegate.service.runner, tidegate.service.assembly"
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def _p99(taken: Sequence[float]) -> float:
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _consumer(servers: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "log_level": 0})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def _next(consumer: Consumer, seen: set[str]) -> TaskIssued:
    """The next task that was not published before: a successor publishes those under way again."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None or message.error():
            continue
        task = Wire().deserialize(message.key(), message.value())
        if isinstance(task, TaskIssued) and task.event_id not in seen:
            seen.add(task.event_id)
            return task
    raise RuntimeError("no task within a minute")


def many_partitions(folder: Path, partitions: int) -> Iterator[Line]:
    """4. In this process, whose limit of descriptors is lowered for it; the broker has its own."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    broker = EmbeddedBroker(folder)
    broker.heap_mb = 1024
    with broker, deployment(broker.bootstrap_servers, partitions) as (prefix, publisher):
        servers = broker.bootstrap_servers
        _publish_patiently(publisher, [vacuum(number) for number in range(1000)])
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, limits[1]))
        for what in ("an empty changelog", "a changelog with state"):
            before = _descriptors()
            began = time.perf_counter()
            bus = KafkaBus({"bootstrap.servers": servers}, SESSION)
            loop = CoordinatorLoop(ReaderGate(), bus, prefix)
            while len(list(loop._owned)) < partitions:  # noqa: SLF001
                loop.step(0.1)
            seconds = time.perf_counter() - began
            descriptors = _descriptors() - before
            while loop.step(0.5):
                pass
            loop.close()
            bus.close()
            yield line(f"{partitions} partitions ready, seconds, {what}", seconds, 10)
            yield line("its descriptors", descriptors, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _publish_patiently(publisher: Publisher, events: Sequence[Event]) -> None:
    """Publish again what was not confirmed: a broker that has just made so many logs is slow."""
    deadline = time.monotonic() + 180
    while True:
        try:
            publisher.publish(*events)
        except DeliveryError:
            if time.monotonic() > deadline:
                raise
        else:
            return


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main() -> None:
    """Run all; a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=600)
    parser.add_argument("--only", choices=("kills", "members", "partitions"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, bootstrap(Path(name) / "kafka") as servers:
        parts = {
            "kills": kills(servers, given.kills, Path(name)),
            "members": joins_and_leaves(servers),
            "partitions": many_partitions(Path(name) / "large", given.partitions),
        }
        chosen = [parts[given.only]] if given.only else parts.values()
        show((measurement for part in chosen for measurement in part), as_json=given.json)


if __name__ == "__main__":
    main()
