"""Two workers of a real Spark cluster against one, where every answer of the store takes a while.

    .venv/bin/python benchmarks/spark_workers.py [--partitions 20000] [--latency 0.02]
                                                 [--listed 100000] [--removed 100000] [--json]

The first savepoint of a table, listed by one worker, by two, and by two of which one is killed half
way through. Files are local: the latency is a pause before each item on an executor. Each worker
has some slots, because most of their time is waiting. Then, without the pause, the partitions of
another table are listed and files are removed, each in one Spark job. 0 leaves a part out.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from growth import Seconds, timed
from growth_tables import HudiTable, first_savepoint, groups_of, over
from report import Line, line, show

from support.spark_cluster import Cluster, cluster, kill
from tidegate.compute.parallel_map import SparkMap
from tidegate.compute.spark import lazy_session
from tidegate.storage import Storage

SLOTS = 8
PARTITIONS_OF_FILES = 100
T = TypeVar("T")
R = TypeVar("R")


class SlowStore:
    """A map on Spark, with a pause before each item. Counts its jobs."""

    def __init__(self, running: Cluster, workers: int, latency: float) -> None:
        """Start a session on so many of the workers."""
        conf = running.conf | {"spark.cores.max": str(SLOTS * workers)}
        self.spark = SparkMap(lazy_session(conf | {"spark.executor.cores": str(SLOTS)}))
        self.latency = latency
        self.jobs = 0
        self.spark.map(partial(late, 0.5, abs), range(2 * SLOTS * workers))  # starts its Python

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """See `ParallelMap`."""
        self.jobs += len(items) > 1
        return self.spark.map(partial(late, self.latency, function), items)

    def stop(self) -> None:
        """End the session."""
        self.spark.session().stop()


def late(latency: float, function: Callable[[T], R], item: T) -> R:
    """The result of a store that is far away."""
    time.sleep(latency)
    return function(item)


def savepoints(running: Cluster, table: HudiTable, partitions: int, wait: float) -> Iterator[Line]:
    """The savepoint by one worker, by two, and by two of which one dies."""
    took, written = list[Seconds](), list[bytes]()
    for workers, dies in ((1, False), (2, False), (2, True)):
        store = SlowStore(running, workers, wait)
        if dies:
            threading.Timer(took[1].wall / 2, kill, [running.workers[0]]).start()
        took.append(timed(partial(first_savepoint, table, store)))
        store.stop()
        [done] = table.timeline.glob("*.savepoint")
        written.append(done.read_bytes())
    what = f"savepoint of {partitions:,} partitions on Spark, {wait * 1000:g} ms each"
    one, two, killed = (seconds.wall for seconds in took)
    yield line(f"{what}: two workers by one, s", two, 1 / 1.6, peer=one)
    yield line(f"{what}: one of two killed half way, by two, s", killed, peer=two)
    yield line(f"{what}: other savepoints", len({len(content) for content in written}) - 1, 0)


def listing(running: Cluster, folder: Path, partitions: int) -> Iterator[Line]:
    """All partitions of a table are listed in one job, for its first savepoint."""
    table = HudiTable(folder).create()
    table.commit(0, groups_of(partitions))
    store = SlowStore(running, 2, 0)
    seconds = timed(lambda: first_savepoint(table, store))
    store.stop()
    yield line(f"savepoint of {partitions:,} partitions on Spark: jobs", store.jobs, 1)
    yield line(f"savepoint of {partitions:,} partitions on Spark, s", seconds.wall)


def removal(running: Cluster, folder: Path, files: int) -> Iterator[Line]:
    """Many files go in one job."""
    names = [f"{number}.parquet" for number in range(files // PARTITIONS_OF_FILES)]
    folders = {str(folder / f"p{number}"): names for number in range(PARTITIONS_OF_FILES)}
    for path in folders:
        Path(path).mkdir(parents=True)
        for name in names:
            (Path(path) / name).touch()
    store, removed = SlowStore(running, 1, 0), list[int]()
    warehouse = over(folder)
    seconds = timed(lambda: removed.append(warehouse.remove_with_checksums(folders, store)))
    store.stop()
    if removed != [files] or any(True for _ in Storage().walk(str(folder))):
        raise SystemExit(f"{removed} of {files} files were removed")
    yield line(f"removal of {files:,} files on Spark: jobs", store.jobs, 1)
    yield line(f"removal of {files:,} files on Spark, s", seconds.wall)


def measured(args: argparse.Namespace, folder: Path) -> Iterator[Line]:
    """Every goal, on one cluster."""
    with cluster(folder / "spark", SLOTS) as running:
        if args.partitions:
            table = HudiTable(folder / "orders").create()
            for number in range(2):
                table.commit(number, groups_of(args.partitions))
            yield from savepoints(running, table, args.partitions, args.latency)
        if args.listed:
            yield from listing(running, folder / "listed", args.listed)
        if args.removed:
            yield from removal(running, folder / "files", args.removed)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--listed", type=int, default=100_000)
    parser.add_argument("--removed", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        show(measured(args, Path(name).resolve()), as_json=args.json)


if __name__ == "__main__":
    main()
