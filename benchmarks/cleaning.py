"""The cleaner beside the bare system calls, in one run on one disk: ratios, not seconds.

    .venv/bin/python benchmarks/cleaning.py [--directories 10000] [--folder DIR] [--json]

(a) the plan of a table of many deltas, listing included, against walking it with os.scandir;
(b) the whole cleaning, verification included, against shutil.rmtree of one directory after another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.cleaning import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, DirectoriesCleaned, VacuumKind
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

ROUNDS = 3
BUCKET = b"x" * 900
NOTHING_OPEN = 2**63 - 1


def make_table(location: Path, deltas: int) -> CleaningReleased:
    """Write inserts of two files each, and the delta that a minor vacuum merged them into."""
    product = f"delta_0000001_{deltas:07d}"
    for name in (product, *(f"delta_{n:07d}_{n:07d}_0000" for n in range(1, deltas + 1))):
        (location / name).mkdir(parents=True)
        (location / name / "_orc_acid_version").write_bytes(b"2")
        (location / name / "bucket_00000").write_bytes(BUCKET)
    return CleaningReleased(
        table="hive.bench.t",
        location=str(location),
        occurred_at=datetime.now(UTC),
        said_by="bench",
        caused_by="bench",
        kind=VacuumKind.MINOR,
        directories=(product,),
        min_write_id=1,
        max_write_id=deltas,
        valid_write_ids=f"bench.t:{deltas}:{NOTHING_OPEN}::",
    )


def walk(location: Path) -> int:
    """Add up the size of every file, two levels deep."""
    size = 0
    with os.scandir(location) as directories:
        for directory in directories:
            with os.scandir(directory.path) as files:
                size += sum(file.stat(follow_symlinks=False).st_size for file in files)
    return size


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def plan_beside_walk(cleaner: Cleaner, command: CleaningReleased) -> dict[str, Any]:
    """(a): the fastest of some rounds each, one after the other."""
    location = Path(command.location)
    bare = min(seconds(lambda: walk(location)) for _ in range(ROUNDS))
    planned = min(seconds(lambda: cleaner.plan(command)) for _ in range(ROUNDS))
    return {"walk_s": bare, "plan_s": planned, "plan_over_walk": planned / bare}


def cleaning_beside_rmtree(cleaner: Cleaner, folder: Path, deltas: int) -> dict[str, Any]:
    """(b): each on a table of its own, the same in both."""
    make_table(folder / "bare", deltas)
    command = make_table(folder / "cleaned", deltas)
    obsolete = sorted((folder / "bare").glob("delta_*_*_0000"))
    bare = seconds(lambda: [shutil.rmtree(each) for each in obsolete])
    outcomes: list[object] = []
    cleaned = seconds(lambda: outcomes.extend(cleaner.execute(command)))
    last = outcomes[-1]
    if not isinstance(last, DirectoriesCleaned) or len(last.directories) != deltas:
        raise SystemExit(f"the cleaning did not do its work: {last}")
    return {"rmtree_s": bare, "cleaning_s": cleaned, "cleaning_over_rmtree": cleaned / bare}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=10_000)
    parser.add_argument(
        "--folder", type=Path, help="where the tables are written; default: a temporary one"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name).resolve()
        warehouse = Warehouse(WarehouseRoots.of(str(folder)))
        cleaner = Cleaner(warehouse, ThreadMap(), lambda: datetime.now(UTC))
        command = make_table(folder / "planned", args.directories)
        found = {"directories": args.directories} | plan_beside_walk(cleaner, command)
        found |= cleaning_beside_rmtree(cleaner, folder, args.directories)
    if args.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:<24} {value:.3f}" if isinstance(value, float) else f"{key:<24} {value}")


if __name__ == "__main__":
    main()
