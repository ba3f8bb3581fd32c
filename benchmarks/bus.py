"""The bus beside its peers, in one run on one broker: ratios, because machines differ.

    .venv/bin/python benchmarks/bus.py [--events 50000]

(a) events a second through a decider, against consuming and decoding them and nothing else;
(b) publishing, against a bare confluent-kafka producer that encodes with fastavro;
(c) from the last release published to its command seen;
(d) vacuums a second when a decider's state is read back.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate.cleaning import ReaderGate
from tidegate.events import Event, LockHold, LockReleased, VacuumFinished, VacuumKind
from tidegate.events.codec import encode
from tidegate.events.message import event_of, headers_of
from tidegate.events.schema import schema_of
from tidegate.events.topics import changelog
from tidegate.local.embedded import bootstrap
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.publisher.delivery import DEFAULTS
from tidegate.runtime.bus import Partition
from tidegate.runtime.decider.loop import BATCH_SECONDS, CHUNK, DeciderLoop
from tidegate.runtime.decider.state_store import store_of
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import DECIDERS
from tidegate.service.settings import TopicSettings

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TABLES = 2000
TOGETHER = 2000
"""Events that a writer publishes with one call, and waits for."""


def release(lock_id: int, table: int | None = None) -> LockReleased:
    """One of many releases, spread over some tables, or of the table of a number."""
    subject = _subject(lock_id if table is None else table)
    return LockReleased.model_validate(
        {**subject, "lock_id": lock_id, "transaction_id": 10**6 + lock_id}
    )


def vacuum(number: int, holds: int = 2) -> VacuumFinished:
    """A vacuum that waits for some locks nobody else has."""
    locks = tuple(LockHold(lock_id=number * 10 + n, owner="ana@notebook") for n in range(holds))
    return VacuumFinished.model_validate(
        {
            **_subject(number),
            "kind": VacuumKind.MINOR,
            "directories": ("delta_0000001_0000003",),
            "min_write_id": 1,
            "max_write_id": 3,
            "valid_write_ids": f"db.t{number % TABLES}:3:9223372036854775807::",
            "own_lock_id": number * 10,
            "locks": locks,
        }
    )


def _subject(number: int) -> dict[str, Any]:
    table = f"hive.db.t{number % TABLES}"
    return {"table": table, "location": f"/w/{table}", "occurred_at": NOW, "said_by": "bench"}


HEADERS = list(headers_of(release(0)))


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
        create_topics(config, TopicSettings(prefix=prefix, partitions=partitions), DECIDERS)
        bus = KafkaBus(config)
        with Publisher(self.servers, said_by="bench", prefix=prefix) as publisher:
            yield prefix, bus, publisher
        bus.close()

    def decider(self, count: int) -> str:
        """(a) Events a second through the reader gate, against the raw limit of the same client.

        They take turns of two seconds, over the same events; of these that with the median ratio.
        """
        with self.deployment() as (prefix, bus, publisher):
            _publish(publisher, map(release, range(count)))
            loop = DeciderLoop(ReaderGate(), bus, prefix)
            left = count
            while left == count:
                left -= loop.step(0.1)  # joining the group is not what is measured
            raw = _reader(self.servers, f"{prefix}.locks")
            raw.consume(1, 5)
            turns: list[tuple[float, float]] = []
            while left > 0:
                began, before = time.perf_counter(), left
                left -= loop.step(1)
                rate = (before - left) / (time.perf_counter() - began)
                turns.append((rate, _consume(raw, BATCH_SECONDS)))
            raw.close()
            loop.close()
        rate, limit = sorted(turns, key=lambda turn: turn[0] / turn[1])[len(turns) // 2]
        return _line("(a) decider, events a second", rate, "consume and decode", limit)

    def publishing(self, count: int) -> Iterator[str]:
        """(b) Throughput and latency of publishing."""
        with self.deployment() as (prefix, _, publisher):
            topic = f"{prefix}.locks"
            bare = Producer({**DEFAULTS, "bootstrap.servers": self.servers})
            ways: list[Callable[[list[Event]], object]] = [
                lambda chunk: publisher.publish(*chunk),
                lambda chunk: _produce(bare, topic, chunk, HEADERS),
                lambda chunk: _produce(bare, topic, chunk),
            ]
            ours, same, theirs = (TOGETHER / each for each in _in_turns(ways, count))
            yield _line("(b) publish, events a second", ours, "bare, the same messages", same)
            yield _line("(b) the same", ours, "bare, without headers", theirs)
            events = [release(number) for number in range(500)]
            singles = [
                (
                    _timed(partial(publisher.publish, each)),
                    _timed(partial(_produce, bare, topic, [each], HEADERS)),
                )
                for each in events
            ]
        ours_ms, theirs_ms = (statistics.median(each) * 1000 for each in zip(*singles, strict=True))
        yield _line("(b) publish one, p50 ms", ours_ms, "bare, the same message", theirs_ms)

    def latency(self, count: int) -> str:
        """(c) From the last release published to the command seen, in milliseconds."""
        with self.deployment() as (prefix, bus, publisher):
            stop = threading.Event()
            loop = DeciderLoop(ReaderGate(), bus, prefix)
            thread = threading.Thread(target=loop.run, args=(stop,))
            thread.start()
            consumer = _reader(self.servers, f"{prefix}.commands")
            waits: list[float] = []
            for number in range(count + 5):
                publisher.publish(vacuum(number, holds=1))
                began = time.perf_counter()
                publisher.publish(release(number * 10, number))
                while (message := consumer.poll(5)) is None or message.error():
                    pass
                waits.append((time.perf_counter() - began) * 1000)
            stop.set()
            thread.join()
            loop.close()
            consumer.close()
        ordered = sorted(waits[5:])
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return f"(c) last release to command seen: p50 {p50:.1f} ms, p99 {p99:.1f} ms"

    def restoring(self, count: int) -> str:
        """(d) Vacuums a second when the state is read back, from a changelog that was compacted."""
        gate, at = ReaderGate(), NOW
        store = store_of(gate)
        for event in map(vacuum, range(count)):
            decision = gate.decide(store.state(event.table), event, at)
            pieces = store.serialized(decision.pieces)
            store.put(event.table, decision.state, pieces)
        with self.deployment() as (prefix, bus, _):
            memory = bus.changelog(changelog("reader-gate").name(prefix))
            entries = store.changed_records()
            list(memory.acquire([0]))
            for start in range(0, len(entries), 100):
                memory.write({0: entries[start : start + 100]})
            loop = DeciderLoop(gate, bus, prefix)
            seconds = _timed(lambda: loop.assigned({Partition(f"{prefix}.locks", 0): 0}))
            began = time.perf_counter()
            kept = loop._owned[0].store  # noqa: SLF001
            states = [kept.state(table) for table, _ in kept.tables()]
            waiting = sum(each.loaded.waiting for each in states)
            waking = time.perf_counter() - began
            loop.close()
        size = sum(len(value or b"") for _, value in entries)
        rate, awake = waiting / seconds, waiting / (seconds + waking)
        return (
            f"(d) state restored: {rate:,.0f} vacuums a second ({waiting:,}, {size:,} bytes);"
            f" {awake:,.0f} with every table's state made, as it is when the table is heard of"
        )


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


def _publish(publisher: Publisher, events: Iterator[Event]) -> None:
    chunk: list[Event] = []
    for event in events:
        chunk.append(event)
        if len(chunk) == TOGETHER:
            publisher.publish(*chunk)
            chunk = []
    publisher.publish(*chunk)


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


def _consume(consumer: Consumer, seconds: float) -> float:
    """The raw limit: consume, decode with fastavro, validate with pydantic; events a second."""
    [where] = consumer.assignment()
    consumer.seek(TopicPartition(where.topic, where.partition, 0))
    consumer.consume(1, 5)
    began, seen = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for message in consumer.consume(CHUNK, 0.5):
            event_of(message.key(), message.value())
            seen += 1
    return seen / (time.perf_counter() - began)


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _line(what: str, ours: float, peer: str, theirs: float) -> str:
    return f"{what}: {ours:,.1f}; {peer}: {theirs:,.1f}; ratio {ours / theirs:.2f}"


def main() -> None:
    """Run all and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as folder, bootstrap(Path(folder)) as servers:
        bench = Bench(servers)
        print(bench.decider(3 * events))
        for line in bench.publishing(events):
            print(line)
        print(bench.latency(300))
        print(bench.restoring(events))


if __name__ == "__main__":
    main()
