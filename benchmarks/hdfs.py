"""Listing and cleaning a table on a real HDFS, next to hdfs-native used bare.

    .venv/bin/python benchmarks/hdfs.py [--directories 10000] [--json]

The bare client lists one directory after another, and removes each with all that is in it in one
call, without a check. The cleaner lists, compares with its plan, and removes file by file. The
cluster is on this machine, so a call costs less than in a real one, for both. WebHDFS is no peer:
the jars of the tests don't serve it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import hdfs_native
from report import Line, line, show

from cleaning import inserts, product, released, seconds
from support.hdfs import Cluster, running
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import DirectoriesCleaned

ROUNDS = 3


def make_table(client: hdfs_native.Client, path: str, deltas: int) -> None:
    """Create two files in each directory; empty ones, which take a tenth of the time."""

    def make(name: str) -> None:
        for file in ("_orc_acid_version", "bucket_00000"):
            with client.create(f"{path}/{name}/{file}") as created:
                if name == product(deltas):
                    created.write(b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, [product(deltas), *inserts(deltas)]))


def listings(cluster: Cluster, client: hdfs_native.Client, deltas: int) -> Iterator[Line]:
    """The table listed with all directories, in turns; the fastest of each."""
    files = 2 * (deltas + 1)

    def ours() -> int:
        return len(list(cluster.warehouse().walk(f"{cluster.address}/wh/ours")))

    def bare() -> int:
        directories = list(client.list_status("/wh/ours"))
        return sum(len(list(client.list_status(entry.path))) for entry in directories)

    if (found := (ours(), bare())) != (files, files):
        raise SystemExit(f"{found} of {files} files were listed")
    turns = [(seconds(ours), seconds(bare)) for _ in range(ROUNDS)]
    us, them = (min(times) for times in zip(*turns, strict=True))
    what = f"list {deltas:,} directories of two files on HDFS, against hdfs-native used bare, s"
    yield line(what, us, 1.5, peer=them)


def cleanings(cluster: Cluster, client: hdfs_native.Client, deltas: int) -> Iterator[Line]:
    """The cleaning of the table, and removals of another one."""

    def bare() -> None:
        for name in inserts(deltas):
            client.delete(f"/wh/bare/{name}", recursive=True)

    def ours() -> None:
        cleaner = Cleaner(cluster.warehouse(), ThreadMap(), lambda: datetime.now(UTC))
        *_, cleaned = cleaner.execute(released(f"{cluster.address}/wh/ours", deltas))
        if not isinstance(cleaned, DirectoriesCleaned) or len(cleaned.directories) != deltas:
            raise SystemExit(f"not cleaned: {cleaned}")

    them, us = seconds(bare), seconds(ours)
    yield line(f"clean {deltas:,} directories on HDFS, against bare removals, s", us, 4, peer=them)


def measured(deltas: int) -> Iterator[Line]:
    """Every goal, on one cluster."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as clusters:
        cluster = clusters.lake
        client = hdfs_native.Client(cluster.address)
        for name in ("bare", "ours"):
            make_table(client, f"/wh/{name}", deltas)
        yield from listings(cluster, client, deltas)
        yield from cleanings(cluster, client, deltas)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    show(measured(args.directories), as_json=args.json)


if __name__ == "__main__":
    main()
