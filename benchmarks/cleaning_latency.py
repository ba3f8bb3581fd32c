"""From the last release published to the first directory gone: gate, cleaner and a real broker."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from report import Line, line

from cleaning import NOTHING_OPEN, make_table, product
from support.kafka import bootstrap
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.coordinator.readers import ReaderGate
from tidegate.events import LockHold, LockReleased, VacuumFinished, VacuumKind
from tidegate.ops.topics import create_topics
from tidegate.publisher import Publisher
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.settings import TopicSettings
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

WAITING = 1000
"""Vacuums of other tables that wait meanwhile."""
DELTAS = 20
UNCOUNTED = 200
"""Until then a broker that has just started is still compiling what it does."""
LOOK_SECONDS = 0.0005
PATIENCE_SECONDS = 60
P99_MS = 50


def latencies(folder: Path, count: int) -> Iterator[Line]:
    """p50 and p99 in milliseconds: alone, and while many vacuums wait."""
    with tempfile.TemporaryDirectory() as data, bootstrap(Path(data)) as servers:
        for name, waiting in (("alone", 0), (f"while {WAITING:,} wait", WAITING)):
            with _services(servers, folder) as publisher:
                for number in range(waiting):
                    publisher.publish(_vacuum(f"w{number}", folder, 10**6 + number, DELTAS))
                waits = [
                    _first_gone(publisher, folder, f"t{waiting}x{number}", number + 1)
                    for number in range(UNCOUNTED + count)
                ]
            counted = sorted(waits[UNCOUNTED:])
            for key, at, wanted in (("p50", 0.5, None), ("p99", 0.99, P99_MS)):
                what = f"last release to first directory gone, {name}, {key} ms"
                yield line(what, counted[int(len(counted) * at)], wanted)


@contextmanager
def _services(servers: str, folder: Path) -> Generator[Publisher]:
    """The gate and the cleaner on topics of their own, each on a thread; who publishes to them."""
    prefix, config = f"bench-{uuid.uuid4().hex[:6]}", {"bootstrap.servers": servers}
    create_topics(config, TopicSettings(prefix=prefix, partitions=1))
    warehouse = Warehouse(WarehouseRoots.of(str(folder)))
    buses = KafkaBus(config), KafkaBus(config)
    cleaner = Cleaner(warehouse, ThreadMap(), lambda: datetime.now(UTC))
    loops = CoordinatorLoop(ReaderGate(), buses[0], prefix), ExecutorLoop(cleaner, buses[1], prefix)
    stop = threading.Event()
    threads = [threading.Thread(target=loop.run, args=(stop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        with Publisher(servers, source="bench", prefix=prefix) as publisher:
            yield publisher
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for part in (*loops, *buses):
            part.close()


def _vacuum(table: str, folder: Path, lock_id: int, deltas: int) -> VacuumFinished:
    """A vacuum of a table in the folder that waits for one lock."""
    return VacuumFinished(
        table=f"hive.bench.{table}",
        location=str(folder / table),
        occurred_at=datetime.now(UTC),
        source="bench",
        kind=VacuumKind.MINOR,
        directories=(product(deltas),),
        min_write_id=1,
        max_write_id=deltas,
        valid_write_ids=f"bench.{table}:{deltas}:{NOTHING_OPEN}::",
        own_lock_id=lock_id,
        locks=(LockHold(lock_id=lock_id, owner="reader"),),
    )


def _first_gone(publisher: Publisher, folder: Path, table: str, lock_id: int) -> float:
    """Publish a vacuum and its last release; milliseconds until the first directory is gone."""
    make_table(folder / table, DELTAS)
    publisher.publish(_vacuum(table, folder, lock_id, DELTAS))
    release = LockReleased(
        table=f"hive.bench.{table}",
        location=str(folder / table),
        occurred_at=datetime.now(UTC),
        source="bench",
        lock_id=lock_id,
    )
    began = time.perf_counter()
    publisher.publish(release)
    while len(os.listdir(folder / table)) > DELTAS:  # noqa: PTH208 - names are enough
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise SystemExit(f"{table} was not cleaned within {PATIENCE_SECONDS} s")
        time.sleep(LOOK_SECONDS)
    return (time.perf_counter() - began) * 1000
