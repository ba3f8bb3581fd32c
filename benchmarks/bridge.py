"""The Metastore bridge on a real Metastore (4.0.1, embedded Derby), started here.

    .venv/bin/python benchmarks/bridge.py [--locks 10000] [--vacuums 1000] [--rounds 100]
                                          [--interval-ms 200] [--removals 0] [--json]

(a) one look with so many lock rows and waiting vacuums, and what of it is the Metastore's answer;
(b) from an unlock or a commit to the release's publication, while the bridge looks at an interval:
what comes on top of the interval; (c) how many calls a minute the Metastore gets meanwhile;
(d) with --removals: from an unlock or a commit to the first directory that is gone, through bridge,
gate and cleaner as processes, on an embedded Kafka; the Metastore confirms each removal;
(e) the cleaner's check with the Metastore before a removal: calls and milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from report import Line, line, show

from support.acid import build
from support.deployment import Deployment
from support.hive_engine import SHARED_READ, HiveEngine
from support.metastore import own_metastore
from support.metastore_model import NOON, vacuum
from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.plan import plan_cleaning
from tidegate.cleaning.second_source import SecondSource
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.readers import command_for
from tidegate.embedded.broker import EmbeddedBroker
from tidegate.events import Event, LockReleased
from tidegate.hive.write_ids import NOTHING_OPEN
from tidegate.hive_bridge.baseline import Baseline
from tidegate.hive_bridge.bridge import MetastoreBridge
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.runtime.gc_pause import gc_paused
from tidegate.storage import Storage

COMPONENTS = 100
LOOKS = 20
PARTITION_LEVEL = 3
SELECT = 1
TOO_LONG = 60.0
SLOWEST_MS = 200
ADDED_MS = 150
"""Wanted from an end to the first removal, on top of the interval: 50 are for the confirmation."""
CONFIRMATION_CALLS, CONFIRMATION_MS = 6, 50
CONFIRMATIONS = 100


def take_locks(engine: HiveEngine, database: str, rows: int) -> list[int]:
    """Lock rows of the Metastore: some locks with many components each."""
    types, taken = engine.types, []
    for number in range(rows // COMPONENTS):
        components = [
            types.LockComponent(
                SHARED_READ,
                PARTITION_LEVEL,
                database,
                "orders",
                f"day={number}-{component}",
                SELECT,
                isTransactional=False,
            )
            for component in range(COMPONENTS)
        ]
        request = types.LockRequest(components, 0, "bench", "bench", "bench")
        taken.append(int(engine.call("lock", request).lockid))
    return taken


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def looks(bridge: MetastoreBridge) -> Iterator[Line]:
    """(a): the bridge is warm, and nothing ends meanwhile."""
    bridge.look()
    whole = [seconds(lambda: look(bridge)) for _ in range(LOOKS)]
    answers = [seconds(bridge._client.locks) for _ in range(LOOKS)]  # noqa: SLF001 - a part of it
    medians = [1000 * statistics.median(times) for times in (whole, answers)]
    yield line("one look beside the Metastore's list of locks, ms", medians[0], 2, peer=medians[1])
    yield line("the slowest look, ms", 1000 * max(whole), SLOWEST_MS)


def look(bridge: MetastoreBridge) -> None:
    """Look as the process does."""
    with gc_paused():
        bridge.look()


class Stopwatch:
    """When the release of each lock or transaction was published."""

    def __init__(self) -> None:
        """Nothing is published yet."""
        self.published: dict[tuple[int | None, int | None], float] = {}

    def __call__(self, events: Sequence[Event]) -> None:
        """Take events as the broker would."""
        now = time.perf_counter()
        for event in events:
            if isinstance(event, LockReleased):
                self.published[event.lock_id, event.transaction_id] = now


def watch(bridge: MetastoreBridge, interval: float, stop: threading.Event) -> None:
    """Look at an interval, as the process does."""
    while not stop.is_set():
        began = time.monotonic()
        look(bridge)
        stop.wait(max(0.0, began + interval - time.monotonic()))


def latencies(
    engine: HiveEngine, settings: BridgeSettings, database: str, rounds: int
) -> Iterator[Line]:
    """(b): each at a random moment of the interval."""
    stopwatch, ended = Stopwatch(), dict[tuple[int | None, int | None], float]()
    bridge = MetastoreBridge(settings, stopwatch, Storage(), Baseline())
    locks = [engine.lock(database, "orders") for _ in range(rounds // 2)]
    txns = [engine.open_txn() for _ in range(rounds - len(locks))]
    bridge.look()
    table = f"hive.{database}.orders"
    bridge.take([vacuum(locks, txns, table, own_transaction_id=None)])
    interval, stop = settings.interval_ms / 1000, threading.Event()
    thread = threading.Thread(target=watch, args=(bridge, interval, stop))
    thread.start()
    for hold in (*((lock, None) for lock in locks), *((None, txn) for txn in txns)):
        time.sleep(random.uniform(0, interval))  # noqa: S311 - no secret
        lock, txn = hold
        if lock is not None:
            engine.unlock(lock)
        if txn is not None:
            engine.commit(txn)
        ended[hold] = time.perf_counter()
        while hold not in stopwatch.published:
            time.sleep(0.001)
    stop.set()
    thread.join()
    bridge.close()
    took = sorted(1000 * (stopwatch.published[hold] - at) for hold, at in ended.items())
    yield from _percentiles(f"end to release, interval {settings.interval_ms} ms", took)


def _percentiles(what: str, took: Sequence[float], wanted: float | None = None) -> Iterator[Line]:
    """Of sorted milliseconds; the limit is for p99."""
    yield line(f"{what}, p50 ms", statistics.median(took))
    yield line(f"{what}, p99 ms", took[min(len(took) - 1, int(0.99 * len(took)))], wanted)


class Calls:
    """Counts the bridge's calls of the Metastore, on all of its connections."""

    def __enter__(self) -> Self:
        """Count from now on."""
        self.count, self._real, self.began = 0, MetastoreClient.call, time.monotonic()

        def counted(client: MetastoreClient, name: str, *arguments: object) -> Any:  # noqa: ANN401
            if not name.startswith(("unlock", "commit")):  # the engine's own
                self.count += 1
            return self._real(client, name, *arguments)

        MetastoreClient.call = counted  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        MetastoreClient.call = self._real  # type: ignore[method-assign]
        self.a_minute = 60 * self.count / (time.monotonic() - self.began)


def removals(engine: HiveEngine, folder: Path, rounds: int, interval_ms: int) -> Iterator[Line]:
    """(d): each at a random moment of the interval."""
    settings = f"""
        [bridge.metastore]
        uri = "{engine.settings.uri}"
        interval_ms = {interval_ms}
    """
    warehouse = engine.metastore.warehouse
    with (
        EmbeddedBroker(folder / "kafka") as broker,
        Deployment(broker.bootstrap_servers, "bench", warehouse, settings=settings) as deployment,
    ):
        deployment.run("metastore", "bridge", command="bridge")
        deployment.run("coordinator")
        deployment.run("cleaner")
        each_round = (removal(engine, deployment, interval_ms, n) for n in range(rounds))
        took = sorted(1000 * seconds for seconds in each_round)
    what = f"end to first directory gone, interval {interval_ms} ms"
    yield from _percentiles(what, took, interval_ms + ADDED_MS)


def removal(engine: HiveEngine, deployment: Deployment, interval_ms: int, number: int) -> float:
    """From the end of one reader to the first directory that is gone, in seconds."""
    database = engine.database()
    location = engine.table(database)
    ids = [engine.write(database, "orders") for _ in range(2)]
    old = [location / f"delta_{id_:07}_{id_:07}_0000" for id_ in ids]
    reader = engine.open_txn() if number % 2 else None
    lock = None if reader else engine.lock(database, "orders")
    txn = engine.compact(database, "orders", ids[-1])
    build(
        location,
        {directory.name: 10 for directory in old} | {f"delta_0000001_0000002_v{txn:07}": 20},
    )
    while f"hive.{database}.orders" not in {e.table for e in deployment.events("vacuums")}:
        time.sleep(0.05)
    time.sleep(random.uniform(0, interval_ms / 1000))  # noqa: S311 - no secret
    if lock is not None:
        engine.unlock(lock)
    if reader is not None:
        engine.commit(reader)
    began = time.perf_counter()
    while all(directory.exists() for directory in old):
        if time.perf_counter() - began > TOO_LONG:
            raise SystemExit(f"nothing was removed in {location}")
        time.sleep(0.001)
    return time.perf_counter() - began


def confirmations(engine: HiveEngine) -> Iterator[Line]:
    """(e): of a partition's compaction, each on a connection of its own, as the cleaner asks."""
    database = engine.database()
    location = engine.table(database, partitioned_by=["day"])
    engine.partition(database, "orders", "day=1")
    ids = [engine.write(database, "orders") for _ in range(3)]
    txn = engine.compact(database, "orders", ids[-1], "day=1")
    made = f"delta_{ids[0]:07}_{ids[-1]:07}_v{txn:07}"
    deltas = [f"delta_{id_:07}_{id_:07}_0000" for id_ in ids]
    build(location / "day=1", dict.fromkeys((*deltas, made), 10))
    event = vacuum(
        table=f"hive.{database}.orders",
        location=str(location),
        partition="day=1",
        directories=(made,),
        valid_write_ids=f"{database}.orders:{ids[-1]}:{NOTHING_OPEN}::",
        own_transaction_id=txn,
    )
    command = command_for(event, NOON)
    where = str(location / "day=1")
    plan = plan_cleaning(read_acid_directories(Storage(), where, ThreadMap(1)), command)
    source = SecondSource(engine.settings, readers_lock_at_once=False)
    source.confirm(command, plan)
    with Calls() as calls:
        checks = (seconds(lambda: source.confirm(command, plan)) for _ in range(CONFIRMATIONS))
        took = sorted(1000 * check for check in checks)
    per_check = calls.count / CONFIRMATIONS
    yield line("calls of the Metastore before a removal", per_check, CONFIRMATION_CALLS)
    yield line("the Metastore's confirmation, p50 ms", statistics.median(took), CONFIRMATION_MS)
    yield line("the Metastore's confirmation, p99 ms", took[int(0.99 * len(took))])


def measured(args: argparse.Namespace) -> Iterator[Line]:
    """All that was asked for."""
    with tempfile.TemporaryDirectory() as name, own_metastore(Path(name) / "ms") as metastore:
        engine = HiveEngine(metastore)
        database = engine.database()
        engine.table(database, partitioned_by=["day"])
        settings = BridgeSettings(uri=metastore.uri, interval_ms=args.interval_ms)
        with Calls() as calls:
            yield from latencies(engine, settings, database, args.rounds)
        yield line("calls of the Metastore a minute", calls.a_minute)
        yield from confirmations(engine)
        if args.removals:
            yield from removals(engine, Path(name), args.removals, args.interval_ms)
        locks = take_locks(engine, database, args.locks)
        reader = engine.open_txn()
        bridge = MetastoreBridge(settings, lambda _: None, Storage(), Baseline())
        bridge.look()
        bridge.take(
            vacuum(
                random.sample(locks, 10), [reader], f"hive.{database}.t{n}", own_transaction_id=None
            )
            for n in range(args.vacuums)
        )
        yield from looks(bridge)
        bridge.close()
        engine.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=int, default=10_000)
    parser.add_argument("--vacuums", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--interval-ms", type=int, default=200)
    parser.add_argument("--removals", type=int, default=0, help="rounds of (d)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    show(measured(args), as_json=args.json)


if __name__ == "__main__":
    main()
