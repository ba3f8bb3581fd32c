"""The cleaner beside its peers, in one run on one disk: ratios, not seconds.

    .venv/bin/python benchmarks/cleaning.py [--directories 10000] [--rounds 3] [--folder DIR]
                                            [--latencies 0] [--hive] [--json]

(a) the plan of a table of many deltas, listing included, against walking it with os.scandir;
(b) the whole cleaning, verification included, against shutil.rmtree of one directory after another,
    and against a floor: two threads that do nothing but the system calls of a removal;
(c) with --hive: the plan against getAcidState of real Hive, as its Cleaner calls it, in a warm JVM;
(d) with --latencies N: from the last release published to the first directory gone, on a broker.

Tables are on the disk before they are removed, as real ones are: to free what was never written
costs a file system less. Rounds are in turns; the fastest of each counts, and the ratios are also
printed for the slowest round, because other work on the disk falls into single rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from report import Line, line, show

from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningReleased, DirectoriesCleaned, VacuumKind
from tidegate.hive.write_ids import ValidWriteIds
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

ROUNDS = 3
HIVE_WARM = 40
HIVE_TURNS = 10
FLOOR_THREADS = 2
BUCKET = b"x" * 900
NOTHING_OPEN = 2**63 - 1


def product(deltas: int) -> str:
    """The delta that a minor vacuum merged so many inserts into."""
    return f"delta_0000001_{deltas:07d}"


def inserts(deltas: int) -> list[str]:
    """The deltas that it merged."""
    return [f"delta_{n:07d}_{n:07d}_0000" for n in range(1, deltas + 1)]


def make_table(location: Path, deltas: int) -> CleaningReleased:
    """Write inserts of two files each, and the delta that a minor vacuum merged them into."""
    for name in (product(deltas), *inserts(deltas)):
        (location / name).mkdir(parents=True)
        (location / name / "_orc_acid_version").write_bytes(b"2")
        (location / name / "bucket_00000").write_bytes(BUCKET)
    return released(str(location), deltas)


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
    return both_seconds(action)[0]


def both_seconds(action: Callable[[], object]) -> tuple[float, float]:
    """How long one call takes, and how much of the processor's time."""
    started, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - started, time.process_time() - used


def plan_beside_walk(cleaner: Cleaner, command: CleaningReleased, rounds: int) -> Iterator[Line]:
    """(a): the fastest of some rounds each, in turns."""
    location = Path(command.location)
    turns = [
        (*both_seconds(lambda: walk(location)), *both_seconds(lambda: cleaner.plan(command)))
        for _ in range(rounds)
    ]
    bare, bare_cpu, planned, planned_cpu = (min(seconds) for seconds in zip(*turns, strict=True))
    yield line("plan beside a bare walk, seconds", planned, 3, peer=bare)
    yield line("plan beside a bare walk, seconds of processor time", planned_cpu, 3, peer=bare_cpu)


def rmtree(command: CleaningReleased) -> None:
    """Remove the obsolete directories one after the other."""
    for path in sorted(Path(command.location).glob("delta_*_*_0000")):
        shutil.rmtree(path)


def floor(command: CleaningReleased) -> None:
    """Remove them on two threads, by as few system calls as that takes; nothing is checked."""
    location = Path(command.location)
    parent = os.open(location, os.O_RDONLY | os.O_DIRECTORY)
    names = sorted(path.name for path in location.glob("delta_*_*_0000"))
    with ThreadPoolExecutor(FLOOR_THREADS) as pool:
        batches = [names[start : start + 100] for start in range(0, len(names), 100)]
        list(pool.map(partial(_remove_bare, parent), batches))
    os.close(parent)


def _remove_bare(parent: int, names: Sequence[str]) -> None:
    for name in names:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        with os.scandir(directory) as entries:
            files = [entry.name for entry in entries]
        for file in files:
            os.unlink(file, dir_fd=directory)
        os.close(directory)
        os.rmdir(name, dir_fd=parent)


def clean(cleaner: Cleaner, command: CleaningReleased) -> None:
    """The whole cleaning; it must have done its work."""
    *_, last = cleaner.execute(command)
    left = [path.name for path in Path(command.location).iterdir()]
    if not isinstance(last, DirectoriesCleaned) or left != list(command.directories):
        raise SystemExit(f"the cleaning did not do its work: {last}")


def cleaning_beside_rmtree(
    cleaner: Cleaner, folder: Path, deltas: int, rounds: int
) -> Iterator[Line]:
    """(b): each on a table of its own, the same in all."""
    turns: list[tuple[float, ...]] = []
    for _ in range(rounds):
        took: list[float] = []
        for way in (rmtree, floor, partial(clean, cleaner)):
            command = make_table(folder / "removed", deltas)
            os.sync()
            took.append(seconds(partial(way, command)))
            shutil.rmtree(folder / "removed")
        turns.append(tuple(took))
    one_by_one, bare, ours = (min(seconds) for seconds in zip(*turns, strict=True))
    what = f"plan and cleaning of {deltas:,} deltas beside"
    yield line(f"{what} rmtree one by one, seconds", ours, 0.5, peer=one_by_one)
    worst = max(turns, key=lambda turn: turn[2] / turn[0])
    yield line(f"{what} rmtree, the slowest round, seconds", worst[2], peer=worst[0])
    yield line(f"{what} two threads of bare system calls, seconds", ours, peer=bare)


def hive_beside_plan(cleaner: Cleaner, command: CleaningReleased) -> Iterator[Line]:
    """(c): after HIVE_WARM rounds, in which the JVM compiles what it needs; then in turns."""
    from support.hive_judge import NO_TXNS, hive_judge  # noqa: PLC0415 - needs Hive's jars

    location, write_ids = Path(command.location), ValidWriteIds.parse(command.valid_write_ids)
    with hive_judge("-Xmx2g") as hive:
        ask = partial(hive.ask, location, write_ids, NO_TXNS, as_cleaner=True)
        state = ask()
        if isinstance(state, str) or len(state.obsolete) != len(cleaner.plan(command).remove):
            raise SystemExit(f"Hive plans otherwise: {str(state)[:300]}")
        for _ in range(1 + HIVE_WARM):
            ask()
        turns = [(seconds(ask), seconds(lambda: cleaner.plan(command))) for _ in range(HIVE_TURNS)]
    theirs, ours = (min(seconds) for seconds in zip(*turns, strict=True))
    yield line("plan beside getAcidState of a warm Hive, seconds", ours, 0.2, peer=theirs)


def measured(args: argparse.Namespace, folder: Path) -> Iterator[Line]:
    """All that was asked for."""
    cleaner = Cleaner(
        Warehouse(WarehouseRoots.of(str(folder))), ThreadMap(), lambda: datetime.now(UTC)
    )
    command = make_table(folder / "planned", args.directories)
    yield from plan_beside_walk(cleaner, command, args.rounds)
    if args.hive:
        yield from hive_beside_plan(cleaner, command)
    yield from cleaning_beside_rmtree(cleaner, folder, args.directories, args.rounds)
    if args.latencies:
        from cleaning_latency import latencies  # noqa: PLC0415 - needs a broker

        yield from latencies(folder, args.latencies)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directories", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--folder", type=Path, help="where the tables are written; default: a temporary one"
    )
    parser.add_argument("--latencies", type=int, default=0, help="how many vacuums (d) releases")
    parser.add_argument("--hive", action="store_true", help="ask real Hive too (a JDK, 300 MB)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        show(measured(args, Path(name).resolve()), as_json=args.json)


if __name__ == "__main__":
    main()
