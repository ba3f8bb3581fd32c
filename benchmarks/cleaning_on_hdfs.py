"""The cleaning of a table on a real HDFS beside bare removals by its client, in one run.

    .venv/bin/python benchmarks/cleaning_on_hdfs.py [--directories 10000]

The peer removes one directory after another, each with all that is in it in one call, and checks
nothing. The cleaner lists, compares with its plan, and removes file by file. The cluster is on this
machine, so a call costs less than in a real one, for both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import hdfs_native
from report import line, show

from support.hdfs import running
from tidegate.cleaning import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, DirectoriesCleaned, VacuumKind
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

NOTHING_OPEN = 2**63 - 1


def product(deltas: int) -> str:
    """The delta that a minor vacuum merged so many inserts into."""
    return f"delta_0000001_{deltas:07d}"


def inserts(deltas: int) -> list[str]:
    """What it merged."""
    return [f"delta_{n:07d}_{n:07d}_0000" for n in range(1, deltas + 1)]


def make_table(client: hdfs_native.Client, path: str, deltas: int) -> None:
    """Create two files in each directory; empty ones, which take a tenth of the time."""

    def make(name: str) -> None:
        for file in ("_orc_acid_version", "bucket_00000"):
            with client.create(f"{path}/{name}/{file}") as created:
                if name == product(deltas):
                    created.write(b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, [product(deltas), *inserts(deltas)]))


def released(location: str, deltas: int) -> CleaningReleased:
    """The command that removes the inserts."""
    return CleaningReleased(
        table="hive.bench.t",
        location=location,
        occurred_at=datetime.now(UTC),
        source="bench",
        caused_by="bench",
        kind=VacuumKind.MINOR,
        directories=(product(deltas),),
        min_write_id=1,
        max_write_id=deltas,
        valid_write_ids=f"bench.t:{deltas}:{NOTHING_OPEN}::",
    )


def seconds(act: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    deltas: int = args.directories
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as clusters:
        address = clusters.lake.address
        client = hdfs_native.Client(address)
        for name in ("bare", "ours"):
            make_table(client, f"/wh/{name}", deltas)

        def remove_bare() -> None:
            for name in inserts(deltas):
                client.delete(f"/wh/bare/{name}", recursive=True)

        def clean() -> None:
            warehouse = Warehouse(WarehouseRoots.of(f"{address}/wh"))
            cleaner = Cleaner(warehouse, ThreadMap(), lambda: datetime.now(UTC))
            *_, cleaned = cleaner.execute(released(f"{address}/wh/ours", deltas))
            if not isinstance(cleaned, DirectoriesCleaned) or len(cleaned.directories) != deltas:
                raise SystemExit(f"not cleaned: {cleaned}")

        bare, ours = seconds(remove_bare), seconds(clean)
    goal = f"cleaning of {deltas:,} directories on HDFS beside bare removals, seconds"
    show([line(goal, ours, 4, peer=bare)], as_json=args.json)


if __name__ == "__main__":
    main()
