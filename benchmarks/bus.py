"""The bus beside its peers, in one run on one broker: ratios, because machines differ.

    .venv/bin/python benchmarks/bus.py [--events 50000] [--json]

(a) events a second through a decider, against a consumer that decodes them and does nothing else:
    releases alone, and a mix: vacuums and the releases of their holds. The first command of each
    table is published, the others wait for its end;
(b) publishing, against a bare confluent-kafka producer that encodes with fastavro;
(c) from the last release published to its command seen;
(d) vacuums a second when a decider's state is read back and every vacuum is in the index.

The peer of (a) is written as a careful user would: confluent-kafka, fastavro, pydantic models (see
peer.py). It decides nothing, remembers nothing, publishes nothing and commits nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from confluent_kafka import Consumer, Producer, TopicPartition
from peer import Peer, Spent
from report import Line, line, show

from support.kafka import bootstrap
from tidegate.coordinator.loop import BATCH_SECONDS, CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.rows.store import Store
from tidegate.events import Event, LockHold, LockReleased, VacuumFinished, VacuumKind
from tidegate.events.codec import encode, schema_of
from tidegate.events.topics import CHANGELOG
from tidegate.events.wire import Wire, headers_of
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.publisher.delivery import DEFAULTS
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TABLES = 2000
TOGETHER = 2000
"""Events that a writer publishes with one call, and waits for."""
SPREAD = 100
"""Ids of locks that each vacuum may use."""


def mix(count: int) -> Iterator[Event]:
    """Vacuums, each with the releases of its two holds behind those of some others."""
    for start in range(0, count // 3, 100):
        numbers = range(start, min(start + 100, count // 3))
        yield from map(vacuum, numbers)
        for hold in range(2):
            for number in numbers:
                yield release(number * SPREAD + hold, number)


def release(lock_id: int, table: int | None = None) -> LockReleased:
    """One of many releases, spread over some tables, or of the table of a number."""
    subject = _subject(lock_id if table is None else table)
    return LockReleased.model_validate(
        {**subject, "lock_id": lock_id, "transaction_id": 10**6 + lock_id}
    )


def vacuum(number: int, holds: int = 2, table: int | None = None) -> VacuumFinished:
    """A vacuum that waits for some locks of its own."""
    first, subject = number * SPREAD, _subject(number if table is None else table)
    locks = tuple(LockHold(lock_id=first + n, owner="ana@notebook") for n in range(holds))
    return VacuumFinished.model_validate(
        {
            **subject,
            "kind": VacuumKind.MINOR,
            "directories": (f"delta_{number + 1:07}_{number + 3:07}",),
            "min_write_id": number + 1,
            "max_write_id": number + 3,
            "valid_write_ids": f"{subject['table'][5:]}:{number + 3}:9223372036854775807::",
            "own_lock_id": first,
            "locks": locks,
        }
    )


def _subject(number: int) -> dict[str, Any]:
    table = f"hive.db.t{number % TABLES}"
    return {"table": table, "location": f"/w/{table}", "occurred_at": NOW, "source": "bench"}


HEADERS = list(headers_of(release(0)))


class Turn(NamedTuple):
    """What a turn took."""

    ours: Spent
    decoding: Spent
    """Consuming and decoding with our own events, and nothing else."""
    peer: Spent


_CLOCKS = ("", " of processor time")


class Bench:
    """A deployment of its own for each measurement."""

    def __init__(self, servers: str) -> None:
        """Take the broker."""
        self.servers = servers

    @contextmanager
    def deployment(self, partitions: int = 1) -> Iterator[tuple[str, KafkaBus, Publisher]]:
        """Fresh topics, a bus and a publisher."""
        prefix = f"bench-{uuid.uuid4().hex[:6]}"
        config = {"bootstrap.servers": self.servers}
        create_topics(config, TopicSettings(prefix=prefix, partitions=partitions))
        bus = KafkaBus(config)
        with Publisher(self.servers, source="bench", prefix=prefix) as publisher:
            yield prefix, bus, publisher
        bus.close()

    def deciding(self, what: str, events: Iterable[Event], wanted: float | None) -> Iterator[Line]:
        """(a) Events a second through the reader gate, against the peer on the same topics.

        They take turns of two seconds, and all of them count: the gate reads the backlog of vacuums
        first, so no turn of its own has the mix that the peer reads. `wanted` is the ratio to the
        peer. The gate reads its own outcomes back, too: those do not count as events.
        """
        with self.deployment() as (prefix, bus, publisher):
            topics = [f"{prefix}.vacuums", f"{prefix}.locks"]
            count = _publish(publisher, events)
            loop = CoordinatorLoop(ReaderGate(), bus, prefix)
            peer, seen, most = Peer(self.servers, topics), 0, count - TOGETHER
            turns: list[Turn] = []
            while seen < count:
                began, cpu, before = time.perf_counter(), time.process_time(), seen
                loop.step(0.1)
                seen = _applied(loop, topics)
                if not seen:  # joining the group is not what is measured
                    continue
                spent = Spent(seen - before, time.perf_counter() - began, time.process_time() - cpu)
                decoded = peer.consume(BATCH_SECONDS, most, Wire().deserialize)
                turns.append(Turn(spent, decoded, peer.consume(BATCH_SECONDS, most)))
            peer.close()
            loop.close()
        ours, decoding, theirs = (_sum(seconds) for seconds in zip(*turns, strict=True))
        for of, own, same, peers in zip(_CLOCKS, ours, decoding, theirs, strict=True):
            name = f"(a) {what}, events a second{of}"
            yield line(f"{name}; the peer", own, wanted, peer=peers, at_least=wanted is not None)
            yield line(f"{name}; only decoding them ourselves", own, peer=same)

    def publishing(self, count: int) -> Iterator[Line]:
        """(b) Throughput and latency of publishing."""
        with self.deployment() as (prefix, _, publisher):
            topic = f"{prefix}.locks"
            bare = Producer({**DEFAULTS, "bootstrap.servers": self.servers})
            ways: list[Callable[[list[Event]], object]] = [
                lambda chunk: publisher.publish(*chunk),
                lambda chunk: _produce(bare, topic, chunk, HEADERS),
                lambda chunk: _produce(bare, topic, chunk),
            ]
            ours, same, theirs = (TOGETHER / turn for turn in _in_turns(ways, count))
            yield line(
                "(b) publish, events a second; a bare producer", ours, 0.9, peer=same, at_least=True
            )
            yield line("(b) the same; a bare producer without headers", ours, peer=theirs)
            events = [release(number) for number in range(500)]
            singles = [
                (
                    _timed(partial(publisher.publish, event)),
                    _timed(partial(_produce, bare, topic, [event], HEADERS)),
                )
                for event in events
            ]
        ours_ms, theirs_ms = (
            statistics.median(seconds) * 1000 for seconds in zip(*singles, strict=True)
        )
        ours, theirs = 1000 / ours_ms, 1000 / theirs_ms
        yield line("(b) publish one, p50, in a second", ours, 0.9, peer=theirs, at_least=True)

    def latency(self, count: int) -> Iterator[Line]:
        """(c) From the last release published to the command seen, in milliseconds."""
        with self.deployment() as (prefix, bus, publisher):
            stop = threading.Event()
            loop = CoordinatorLoop(ReaderGate(), bus, prefix)
            thread = threading.Thread(target=loop.run, args=(stop,))
            thread.start()
            consumer = _reader(self.servers, f"{prefix}.tasks")
            waits: list[float] = []
            for number in range(count + 5):
                publisher.publish(vacuum(number, holds=1))
                began = time.perf_counter()
                publisher.publish(release(number * SPREAD, number))
                while (message := consumer.poll(5)) is None or message.error():
                    pass
                waits.append((time.perf_counter() - began) * 1000)
            stop.set()
            thread.join()
            loop.close()
            consumer.close()
        ordered = sorted(waits[5:])
        for name, limit, at in (("p50", 10, 0.5), ("p99", 50, 0.99)):
            took = ordered[int(len(ordered) * at)]
            yield line(f"(c) last release to command seen, {name}, ms (at most)", took, limit)

    def restoring(self, what: str, vacuums: Iterable[VacuumFinished]) -> Iterator[Line]:
        """(d) Vacuums a second when a changelog is read back, against consuming its records."""
        gate = ReaderGate()
        store = Store(gate.row_types)
        for event in vacuums:
            store.begin()
            gate.handle(event, store, NOW)
            store.commit()
        with self.deployment() as (prefix, bus, _):
            topic, entries = CHANGELOG.name(prefix), store.batch()
            written = bus.changelog(topic)
            list(written.acquire([0]))
            for start in range(0, len(entries), 1000):  # what comes before the last has no end mark
                written.write({0: entries[start : start + 1000]})
            written.close()
            del store
            loop = CoordinatorLoop(gate, bus, prefix)
            peer = Peer(self.servers, [topic])
            seconds, cpu = _timed_twice(lambda: loop.assigned({Partition(f"{prefix}.locks", 0): 0}))
            [waiting] = loop._owned[0].store.one("select count(*) from vacuum")  # noqa: SLF001
            raw = peer.take(len(entries))
            peer.close()
            loop.close()
        rate = waiting / seconds
        yield line(f"(d) read back, {what}, vacuums a second; records taken", rate, peer=raw)
        yield line("(d) the same, vacuums a second", rate, 5_000, at_least=True)
        yield line("(d) the same, of processor time", waiting / cpu, 5_000, at_least=True)


def _applied(loop: CoordinatorLoop, topics: Sequence[str]) -> int:
    """How many events of these topics, which have one partition, were applied."""
    owned = loop._owned  # noqa: SLF001
    return sum(owned[0].store.applied_to(topic) for topic in topics) if 0 in owned else 0


def _sum(turns: Sequence[Spent]) -> tuple[float, float]:
    """Events a second of some turns, of the clock and of processor time."""
    events = sum(turn.events for turn in turns)
    return events / sum(turn.seconds for turn in turns), events / sum(turn.cpu for turn in turns)


def _in_turns(ways: Sequence[Callable[[list[Event]], object]], count: int) -> Iterator[float]:
    """Give the median seconds that each way takes for TOGETHER events, of `count` in all.

    They take turns with every chunk, and at who begins: what else the machine does changes soon.
    """
    taken: list[list[float]] = [[] for _ in ways]
    for turn, start in enumerate(range(0, count, TOGETHER)):
        chunk: list[Event] = [release(number) for number in range(start, start + TOGETHER)]
        for number in range(len(ways)):
            way = (turn + number) % len(ways)
            taken[way].append(_timed(partial(ways[way], chunk)))
    return map(statistics.median, taken)


def _publish(publisher: Publisher, events: Iterable[Event]) -> int:
    """Publish events; give their number."""
    chunk: list[Event] = []
    count = 0
    for event in events:
        chunk.append(event)
        count += 1
        if len(chunk) == TOGETHER:
            publisher.publish(*chunk)
            chunk = []
    publisher.publish(*chunk)
    return count


def _produce(
    producer: Producer, topic: str, events: list[Event], headers: list[Any] | None = None
) -> None:
    """What a writer without Tidegate would do: fastavro, produce, and flush to wait for all."""
    schema, prefix = schema_of(LockReleased), encode(events[0])[:10]
    for event in events:
        body = BytesIO()
        body.write(prefix)
        fastavro.schemaless_writer(body, schema.parsed, event.model_dump())
        while True:
            try:
                key = event.table.encode()
                producer.produce(topic, body.getvalue(), key, headers=headers)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def _reader(servers: str, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _timed(action: Callable[[], object]) -> float:
    return _timed_twice(action)[0]


def _timed_twice(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of this process's processor time."""
    began, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - cpu


def measure(bench: Bench, events: int) -> Iterator[Line]:
    """Everything, a line each."""
    yield from bench.deciding("releases", map(release, range(3 * events)), None)
    yield from bench.deciding("vacuums with their releases and commands", mix(3 * events), 0.5)
    yield from bench.publishing(events)
    yield from bench.latency(300)
    yield from bench.restoring("2,000 tables", map(vacuum, range(events)))
    yield from bench.restoring("one table, 20 holds", (vacuum(n, 20, 0) for n in range(events)))


def main() -> None:
    """Run all and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, bootstrap(Path(folder)) as servers:
        show(measure(Bench(servers), given.events), as_json=given.json)


if __name__ == "__main__":
    main()
