"""The rows of growth.py about the bus: listing, replaying, deciding, publishing."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from bus import release, vacuum
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from growth import Goal, Row, Seconds, Timing, timed

from support.kafka import SERVERS_VARIABLE
from tidegate.cli import app
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.store import Store
from tidegate.errors import FormatError
from tidegate.events import CleaningReleased, DirectoriesCleaned, Event
from tidegate.events.cleanings import split_by_names
from tidegate.events.topics import (
    CHANGELOG,
    DEAD_LETTERS,
    LOCKS,
    OUTCOME_TOPIC,
    VACUUMS,
    partition_of,
)
from tidegate.events.wire import Wire
from tidegate.ops.doctor.broker import Broker, check_state
from tidegate.ops.event_log import EventLog
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.publisher.connection import arrived
from tidegate.publisher.delivery import DEFAULTS
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.input.dead_letters import dead_letter
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.runtime.kafka.records import BATCH
from tidegate.service.settings import Settings

PARTITIONS: Final = 6
DESCRIPTORS: Final = 1024
NOW: Final = datetime.now(UTC)
YEAR: Final = timedelta(days=365)
EACH_PUBLISHES: Final = 100
"""Events of a thread of a shared publisher, one after the other."""
WHO: Final[dict[str, Any]] = {"occurred_at": NOW, "source": "bench"}
CHUNK: Final = 10_000
MEGA: Final = 2**20
LARGE: Final = 900_000
LARGE_HOLDS: Final = 900
STATE_PARTITIONS: Final = 200


class Deployment:
    """Topics of its own on the broker; its settings are in a folder, for the second phase too."""

    def __init__(self, folder: Path, partitions: int = PARTITIONS) -> None:
        """Take the folder; the first time, create the topics."""
        self.servers = os.environ[SERVERS_VARIABLE]
        self.config = {"bootstrap.servers": self.servers}
        self.file = folder / "settings.toml"
        is_new = not self.file.exists()
        if is_new:
            prefix = f"growth-{uuid.uuid4().hex[:6]}"
            text = f'[topics]\nprefix = "{prefix}"\npartitions = {partitions}\n'
            self.file.write_text(text)
        self.settings = Settings.load(self.file)
        self.prefix = self.settings.topics.prefix
        if is_new:
            create_topics(self.config, self.settings.topics)

    @contextmanager
    def bus(self) -> Iterator[KafkaBus]:
        """A bus."""
        bus = KafkaBus(self.config)
        try:
            yield bus
        finally:
            bus.close()

    def command(self, *arguments: str) -> None:
        """Run a command as a shell would, its output into nothing."""
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            try:
                app([*arguments, "-c", str(self.file)])
            except SystemExit as end:
                if end.code:
                    raise

    def produce(self, messages: Iterable[tuple[str, bytes, bytes, Any, int, int]]) -> None:
        """Produce topic, key, value, headers, partition and time; wait for all of them."""
        producer = Producer({**DEFAULTS, **self.config, "linger.ms": 50})
        for topic, key, value, headers, number, at_ms in messages:
            while True:
                try:
                    producer.produce(topic, value, key, number, headers=headers, timestamp=at_ms)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(300):
            raise SystemExit("not everything was produced")

    def bare_consume(self, spans: Mapping[Partition, range], count: int | None = None) -> int:
        """Take these records with one consumer and do nothing with them.

        Give their number where offsets are missing: markers of transactions have some too.
        """
        # by default it fetches 64 MB ahead: the peak would be this floor's, not ours
        ahead = {"queued.max.messages.kbytes": 16_384, "fetch.max.bytes": 8 * MEGA}
        own = {"group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer({**self.config, **ahead, **own})
        left = sum(map(len, spans.values())) if count is None else count
        taken = left
        consumer.assign(
            [TopicPartition(*partition, span.start) for partition, span in spans.items() if span]
        )
        while left > 0:
            left -= len(arrived(consumer, BATCH, 0.1))
        consumer.close()
        return taken

    def whole(self, topic: str, bus: KafkaBus) -> Mapping[Partition, range]:
        """All offsets of a topic."""
        return dict(bus.spans(f"{self.prefix}.{topic}"))


# outcomes


def prepare_outcomes(folder: Path, size: int) -> None:
    """A year of outcomes, evenly, up to now; the broker keeps the times that are given."""
    deployment = Deployment(folder)
    topic = OUTCOME_TOPIC.name(deployment.prefix)
    _create_again(deployment.config, topic)
    sent = {table: Wire().serialize(cleaned(table), topic) for table in range(100)}
    messages = [(m.key or b"", m.value or b"", list(m.headers)) for m in sent.values()]
    homes = [partition_of(key.decode(), PARTITIONS) for key, _, _ in messages]
    begin, step = int((NOW - YEAR).timestamp() * 1000), YEAR.total_seconds() * 1000 / size
    deployment.produce(
        (topic, *messages[n % 100], homes[n % 100], begin + int(n * step)) for n in range(size)
    )


def _create_again(config: Mapping[str, str], topic: str) -> None:
    """Instead of the topic one that is never trimmed and has its writers' times."""
    admin = AdminClient(dict(config))
    for future in admin.delete_topics([topic]).values():
        future.result()
    settings = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    deadline = time.monotonic() + 60
    while True:
        try:
            for future in admin.create_topics(
                [NewTopic(topic, PARTITIONS, 1, config=settings)]
            ).values():
                future.result()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def cleaned(number: int) -> DirectoriesCleaned:
    """An outcome of one of a hundred tables."""
    return DirectoriesCleaned.about(
        released(f"hive.db.t{number}"),
        **WHO,
        directories=(f"delta_{number:07}_{number:07}",),
        files=2,
        bytes=1000,
        duration_ms=10,
    )


def released(table: str) -> CleaningReleased:
    """A command to the cleaner."""
    return CleaningReleased.model_validate(
        {
            **WHO,
            "table": table,
            "location": f"/w/{table}",
            "kind": "minor",
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": f"{table[5:]}:3:9223372036854775807::",
            "caused_by": "vacuum",
        }
    )


# dead letters


def prepare_dead_letters(folder: Path, size: int) -> None:
    """Dead letters of invalid lock events."""
    deployment = Deployment(folder)
    topic, inputs = DEAD_LETTERS.name(deployment.prefix), LOCKS.name(deployment.prefix)

    def dead_letters() -> Iterator[tuple[str, bytes, bytes, Any, int, int]]:
        for number in range(size):
            message = Wire().serialize(release(number), inputs)
            part = Partition(inputs, number % PARTITIONS)
            record = Record(part, number, message.key, message.value, message.headers, number)
            made = dead_letter(record, "gate", FormatError("not an event"), topic)
            yield topic, made.key or b"", made.value or b"", list(made.headers), part.number, 0

    deployment.produce(dead_letters())


def prepare_large_dead_letters(folder: Path, size: int) -> None:
    """Dead letters near the largest message."""
    deployment = Deployment(folder)
    topic, inputs = DEAD_LETTERS.name(deployment.prefix), LOCKS.name(deployment.prefix)

    def dead_letters() -> Iterator[tuple[str, bytes, bytes, Any, int, int]]:
        for number in range(size):
            part = Partition(inputs, number % PARTITIONS)
            value = os.urandom(LARGE // 2) * 2
            record = Record(part, number, b"lake.d.t", value, (), number)
            made = dead_letter(record, "gate", FormatError("not an event"), topic)
            yield topic, made.key or b"", made.value or b"", list(made.headers), part.number, 0

    deployment.produce(dead_letters())


def measure_dead_letters(folder: Path, size: int) -> Timing:
    """`dead-letters list` of all of them, beside a bare consumer."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(DEAD_LETTERS.suffix, bus)
        floor = timed(lambda: deployment.bare_consume(spans))
    ours = timed(lambda: deployment.command("dead-letters", "list", "--limit", str(size)))
    first = timed(lambda: deployment.command("dead-letters", "list"))
    return Timing(ours, floor, {"ms of the newest 100": first.wall * 1000})


def measure_discard(folder: Path, _: int) -> Timing:
    """`dead-letters discard --execute` of all of them, beside a bare consumer."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(DEAD_LETTERS.suffix, bus)
        floor = timed(lambda: deployment.bare_consume(spans))
        arguments = ("--service", "gate", "--reason", "bench", "--execute")
        ours = timed(lambda: deployment.command("dead-letters", "discard", *arguments))
        audited = sum(map(len, deployment.whole(OUTCOME_TOPIC.suffix, bus).values()))
    if audited != sum(map(len, spans.values())):
        raise SystemExit(f"{audited} dead letters were discarded")
    return Timing(ours, floor)


# replays


def prepare_locks(folder: Path, size: int) -> None:
    """Lock events, the publisher's own."""
    publish(Deployment(folder), map(release, range(size)))


def publish(deployment: Deployment, events: Iterable[Event]) -> int:
    """Publish events, many at a time."""
    count, chunk = 0, list[Event]()
    with Publisher(deployment.servers, source="bench", prefix=deployment.prefix) as publisher:
        for event in events:
            chunk.append(event)
            count += 1
            if len(chunk) == CHUNK:
                publisher.publish(*chunk)
                chunk = []
        publisher.publish(*chunk)
    return count


def measure_replay(folder: Path, _: int) -> Timing:
    """`replay events`, a dry run over everything, beside a bare consumer."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(LOCKS.suffix, bus)
        floor = timed(lambda: deployment.bare_consume(spans))
    dry = ("replay", "events", "--topic", "locks", "--from-offset", "0")
    return Timing(timed(lambda: deployment.command(*dry)), floor)


def prepare_newest_locks(folder: Path, size: int) -> None:
    """As many events, of which the newest thousand of a partition are going to be replayed."""
    prepare_locks(folder, size)


def measure_newest_replay(folder: Path, _: int) -> Timing:
    """`replay events` of the newest thousand of a partition: the others are not read."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(LOCKS.suffix, bus)
        part, span = max(spans.items(), key=lambda item: len(item[1]))
        start = max(0, span.stop - 1000)
        floor = timed(lambda: deployment.bare_consume({part: range(start, span.stop)}))
    dry = ("--topic", "locks", "--partition", str(part.number), "--from-offset", str(start))
    return Timing(timed(lambda: deployment.command("replay", "events", *dry)), floor)


# many partitions


def prepare_changelog(folder: Path, size: int) -> None:
    """A decider's changelog: a hundred waiting vacuums a partition."""
    deployment = Deployment(folder, size)
    _publish_patiently(deployment, size)
    with deployment.bus() as bus:
        loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
        left = 100 * size
        while left > 0:
            left -= loop.step(0.1)
        loop.close()


def prepare_large_state(folder: Path, size: int) -> None:
    """A decider's changelog of so many megabytes in 200 partitions: vacuums of 900 locks each."""
    deployment = Deployment(folder, STATE_PARTITIONS)
    _publish_patiently(deployment, 1)
    numbers = range(size * MEGA // _record_bytes())
    with Publisher(deployment.servers, source="bench", prefix=deployment.prefix) as publisher:
        for start in numbers[::200]:
            publisher.publish(*(vacuum(number, LARGE_HOLDS) for number in numbers[start:][:200]))
    with deployment.bus() as bus:
        loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
        left = len(numbers)
        while left > 0:
            left -= loop.step(0.1)
        loop.close()


def _record_bytes() -> int:
    """What the gate stores of such a vacuum."""
    store, gate = Store(ReaderGate().row_types), ReaderGate()
    store.begin()
    gate.handle(vacuum(1, LARGE_HOLDS), store, NOW)
    store.commit()
    return max(len(value or b"") for _, value in store.batch())


def measure_large_state(folder: Path, size: int) -> Timing:
    """The doctor's reading of it, beside a bare consumer of the changelog."""
    found = measure_doctor(folder, size)
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(CHANGELOG.suffix, bus)
        state = sum(len(record.value or b"") for record in bus.read(spans))
    return replace(found, counts={"MB of state": state / MEGA})


def _publish_patiently(deployment: Deployment, size: int) -> None:
    """A broker that has just made so many logs is slow; what is published twice is known."""
    deadline = time.monotonic() + 180
    while True:
        try:
            publish(deployment, map(vacuum, range(100 * size)))
        except Exception:
            if time.monotonic() > deadline:
                raise
        else:
            return


def measure_doctor(folder: Path, _: int) -> Timing:
    """The doctor's reading of a decider's state, beside a bare consumer of its changelog."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(CHANGELOG.suffix, bus)
        count = sum(1 for _ in bus.read(spans))
    broker = Broker(deployment.settings)
    floor = timed(lambda: deployment.bare_consume(spans, count))
    findings: list[str] = []
    ours = timed(lambda: findings.append(check_state(broker).state))
    if findings != ["ok"]:
        raise SystemExit(f"the doctor found {findings}")
    return Timing(ours, floor)


def prepare_partitions(folder: Path, size: int) -> None:
    """Topics with so many partitions, and some vacuums on them."""
    _publish_patiently(Deployment(folder, size), 10)


def measure_partitions(folder: Path, size: int) -> Timing:
    """A decider that owns them all, beside a bare consumer that joins a group for its inputs."""
    deployment = Deployment(folder)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, limits[1]))
    floor = timed(lambda: _bare_join(deployment, size))
    before = _descriptors()
    bus = KafkaBus(deployment.config)
    loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)

    def ready() -> None:
        while len(list(loop._owned)) < size:  # noqa: SLF001
            loop.step(0.1)

    ours = timed(ready)
    counts = {"descriptors": _descriptors() - before}
    loop.close()
    bus.close()
    return Timing(ours, floor, counts)


def _bare_join(deployment: Deployment, size: int) -> None:
    consumer = Consumer({**deployment.config, "group.id": f"{deployment.prefix}.bare"})
    consumer.subscribe([topic.name(deployment.prefix) for topic in (LOCKS, VACUUMS)])
    while len(consumer.assignment()) < 2 * size:
        consumer.poll(0.05)
    consumer.close()


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


# outcomes and publishing


def prepare_outcome(folder: Path, _: int) -> None:
    """Topics."""
    Deployment(folder)


def measure_outcome(folder: Path, size: int) -> Timing:
    """One outcome with so many names, published and read back, beside the bytes produced bare."""
    deployment = Deployment(folder)
    topic = OUTCOME_TOPIC.name(deployment.prefix)
    names = [f"delta_{number:07}_{number:07}_0000" for number in range(size)]
    command = released("hive.db.t")

    def parts() -> list[DirectoriesCleaned]:
        groups = split_by_names((name, name) for name in names)
        fields = {**WHO, "files": 1, "bytes": 1, "duration_ms": 1}
        return [
            DirectoriesCleaned.about(
                command, **fields, directories=tuple(group), part=n, parts=len(groups)
            )
            for n, group in enumerate(groups, 1)
        ]

    messages = [Wire().serialize(part, topic) for part in parts()]
    largest = max(len(message.value or b"") for message in messages)
    at = int(NOW.timestamp() * 1000)
    bare: list[tuple[str, bytes, bytes, Any, int, int]] = [
        (DEAD_LETTERS.name(deployment.prefix), b"k", m.value or b"", [], 0, at) for m in messages
    ]
    floor = timed(lambda: deployment.produce(bare))
    with deployment.bus() as bus:
        written = timed(lambda: bus.send([Wire().serialize(part, topic) for part in parts()]))
    found = list[Event]()

    def read() -> None:
        logged = EventLog.of(deployment.settings).read()
        found.extend(record.event for record in logged if record.event)

    back = timed(read)
    outcomes = [event for event in found if isinstance(event, DirectoriesCleaned)]
    if [len(outcome.directories) for outcome in outcomes] != [size]:
        raise SystemExit(f"{len(outcomes)} outcomes were read back")
    ours = Seconds(written.wall + back.wall, written.cpu + back.cpu)
    return Timing(ours, floor, {"bytes in the largest message": largest})


def measure_threads(folder: Path, size: int) -> Timing:
    """Threads that share a publisher, each event awaited, beside one bare producer's flushes."""
    deployment = Deployment(folder)
    topic = LOCKS.name(deployment.prefix)
    sent = [Wire().serialize(release(number), topic) for number in range(EACH_PUBLISHES * size)]
    producer = Producer({**DEFAULTS, **deployment.config})

    def bare() -> None:
        for message in sent:
            producer.produce(topic, message.value, message.key, headers=list(message.headers))
        producer.flush()

    with Publisher(deployment.servers, source="bench", prefix=deployment.prefix) as publisher:
        publisher.publish(release(0))
        producer.produce(topic, b"warm")
        producer.flush()
        floor = timed(bare)
        ours = timed(partial(_from_threads, publisher, size))
    rate = EACH_PUBLISHES * size / ours.wall
    return Timing(ours, floor, {"events a second": rate})


def _from_threads(publisher: Publisher, size: int) -> None:
    def work(first: int) -> None:
        for number in range(first, first + EACH_PUBLISHES):
            publisher.publish(release(number))

    threads = [threading.Thread(target=work, args=(n * EACH_PUBLISHES,)) for n in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# the changelog of a stream


def prepare_stream(folder: Path, size: int) -> None:
    """Some vacuums that wait, then lock events that release none of them."""
    deployment = Deployment(folder)
    publish(deployment, map(vacuum, range(1000)))
    publish(deployment, (release(10**6 + number) for number in range(size)))


def measure_stream(folder: Path, size: int) -> Timing:
    """A decider that consumes it, beside a bare consumer; bytes of its changelog an event."""
    deployment = Deployment(folder)
    with deployment.bus() as bus:
        spans = deployment.whole(LOCKS.suffix, bus)
        floor = timed(lambda: deployment.bare_consume(spans))
        loop = CoordinatorLoop(ReaderGate(), bus, deployment.prefix)
        left = 1000 + size

        def consume() -> None:
            nonlocal left
            while left > 0:
                left -= loop.step(0.1)

        ours = timed(consume)
        loop.close()
        topic = CHANGELOG.suffix
        records: Sequence[Record] = list(bus.read(deployment.whole(topic, bus)))
    written = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    counts = {"changelog bytes an event": written / size, "MB in all": written / MEGA}
    return Timing(ours, floor, counts)


ROWS = tuple(
    Row(name, unit, sizes, prepare, measure, goal, on_broker=True)
    for name, unit, sizes, prepare, measure, goal in (
        (
            "dead-letters list",
            "dead letters",
            (500, 5_000, 50_000),
            prepare_dead_letters,
            measure_dead_letters,
            Goal(),
        ),
        (
            "dead-letters list, of 900 kB each",
            "dead letters",
            (5, 50, 500),
            prepare_large_dead_letters,
            measure_dead_letters,
            Goal(),
        ),
        (
            "dead-letters discard",
            "dead letters",
            (500, 5_000, 50_000),
            prepare_dead_letters,
            measure_discard,
            Goal(),
        ),
        (
            "replay events, a dry run",
            "events",
            (10_000, 100_000, 1_000_000),
            prepare_locks,
            measure_replay,
            Goal(),
        ),
        (
            "replay events, a thousand of them",
            "events",
            (10_000, 100_000, 1_000_000),
            prepare_newest_locks,
            measure_newest_replay,
            Goal(),
        ),
        (
            "doctor, the state of a decider",
            "partitions",
            (2, 20, 200),
            prepare_changelog,
            measure_doctor,
            Goal(),
        ),
        (
            "doctor, the state of a decider in 200 partitions",
            "MB",
            (5, 50, 500),
            prepare_large_state,
            measure_large_state,
            Goal(),
        ),
        (
            "one outcome",
            "names",
            (1_000, 10_000, 100_000),
            prepare_outcome,
            measure_outcome,
            Goal(counts={"bytes in the largest message": 1_000_000}),
        ),
        ("a shared publisher", "threads", (1, 10, 100), prepare_outcome, measure_threads, Goal()),
        (
            "changelog of a stream of lock events",
            "events",
            (1_500, 15_000, 150_000),
            prepare_stream,
            measure_stream,
            Goal(counts={"changelog bytes an event": 1_000}),
        ),
        (
            "a decider's partitions, until it is ready",
            "partitions",
            (6, 60, 600),
            prepare_partitions,
            measure_partitions,
            Goal(seconds=10, counts={"descriptors": DESCRIPTORS}),
        ),
    )
)
