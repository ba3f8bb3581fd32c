"""Savepoints and restores beside real Hudi's own procedures, in one warm Spark session.

    .venv/bin/python benchmarks/hudi.py [--goals savepoint restore] [--partitions 200]
                                        [--rounds 3] [--folder DIR] [--tables DIR] [--json]

Real Hudi writes the tables: three inserts, so that each partition has three file groups, and a
savepoint on the last; then upserts of every group. Both sides work on byte copies of one table with
the times preserved, and take turns, ours second; the first round warms both up and does not count.
After each turn both tables must have as many data files and the same savepoints, and after a
restore the same files. The medians of the rounds are compared: seconds, and seconds of processor
time of this process, its JVM and its Python workers, which other work on the machine hardly
changes. `--tables` keeps the tables that were written, and uses those that are there.

The last goal needs no peer: a restore of the same files among ten times as many other partitions,
without the time of listing them, which is printed too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from growth import timed
from growth_tables import HudiTable
from report import Line, line, show

from support.hudi_records import RealHudi
from support.hudi_tables import data_files
from support.judged import restore, savepoint
from support.merge_on_read import loaded
from support.real_hudi import RealTable, Row
from support.spark import hudi_session
from tidegate.compute.parallel_map import SparkMap, ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated
from tidegate.hudi_reader.partitions import list_partitions
from tidegate.storage import ParallelMap, Storage

GROUPS = 3
TUNED = {"hoodie.rollback.parallelism": "4", "hoodie.file.listing.parallelism": "4"}
Turn = Callable[[RealTable, str], object]


@dataclass(frozen=True)
class Kind:
    """A kind of table: the commits after the savepoint, and how Hudi writes it."""

    commits: int = 5
    version: int = 9
    metadata_table: bool = False
    merge_on_read: bool = False

    @property
    def name(self) -> str:
        """Its directory."""
        kind = "mor" if self.merge_on_read else "cow"
        return f"{kind}-v{self.version}-{self.commits}{'-indexed' if self.metadata_table else ''}"


@dataclass(frozen=True)
class Goal:
    """Ours and theirs on a kind of table; ours is to be at least so many times as fast."""

    name: str
    times: float
    ours: Turn
    theirs: Turn
    kind: Kind = field(default_factory=Kind)


def rows(partitions: int, group: int, ts: int) -> list[Row]:
    """A row of one file group in each partition."""
    return [(group * partitions + n, f"p{n:05d}", ts, f"row {ts}") for n in range(partitions)]


def write(hudi: RealHudi, path: Path, kind: Kind, partitions: int) -> RealTable:
    """Have Hudi write a table, its savepoint, and the commits after it; or take what is there."""

    def table_at(where: Path) -> RealTable:
        return RealTable(
            hudi, where, kind.version, kind.metadata_table, merge_on_read=kind.merge_on_read
        )

    if path.exists():
        return table_at(path)
    unfinished = path.with_name(f"{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    table = table_at(unfinished)
    separate = {"hoodie.parquet.small.file.limit": "0"}
    for group in range(GROUPS):
        table.write(rows(partitions, group, group), "insert", separate)
    table.call("create_savepoint", commit_time=last_commit(table))
    for ts in range(GROUPS, GROUPS + kind.commits):
        table.write([row for group in range(GROUPS) for row in rows(partitions, group, ts)])
    unfinished.rename(path)
    return table_at(path)


def last_commit(table: RealTable) -> str:
    """The instant of the last completed write."""
    last = loaded(table).timeline.last_completed_write()
    if last is None:
        raise SystemExit(f"{table.path} has no commit")
    return last.timestamp


def saved(table: RealTable) -> str:
    """The instant of the table's savepoint."""
    (instant,) = loaded(table).timeline.savepoints
    return instant


def with_settings(
    table: RealTable, settings: Mapping[str, str], call: Callable[[], object]
) -> None:
    """Call one of Hudi's procedures under these settings of the session.

    A table that is written without a metadata table must not get one now: that would take longer.
    """
    settings = {"hoodie.metadata.enable": str(table.metadata_table).lower(), **settings}
    session = table.hudi.session()
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        call()
    finally:
        for key in settings:
            session.conf.unset(key)


def theirs_restores(settings: Mapping[str, str], table: RealTable, instant: str) -> None:
    """Hudi's own restore."""
    call = partial(table.call, "rollback_to_savepoint", instant_time=instant)
    with_settings(table, settings, call)


def ours_restores(way: Callable[[RealTable], ParallelMap], table: RealTable, instant: str) -> None:
    """Ours, on threads or on Spark."""
    *_, done = restore(table, instant, way(table))
    if not isinstance(done, RestoreCompleted):
        raise SystemExit(f"not restored: {done!r:.500}")


def theirs_saves(table: RealTable, _: str) -> None:
    """Hudi's own savepoint of the last commit."""
    instant = last_commit(table)
    with_settings(table, {}, partial(table.call, "create_savepoint", commit_time=instant))


def ours_saves(table: RealTable, _: str) -> None:
    """Ours of the last commit."""
    done = savepoint(table, last_commit(table), ThreadMap())
    if not isinstance(done, SavepointCreated):
        raise SystemExit(f"no savepoint: {done!r:.500}")


def in_place(_: RealTable) -> ParallelMap:
    """Threads of this process."""
    return ThreadMap()


def on_spark(table: RealTable) -> ParallelMap:
    """The session that Hudi works in."""
    return SparkMap(table.hudi.session)


def then_writes(turn: Turn, table: RealTable, instant: str) -> None:
    """A turn, and the next upsert by real Hudi."""
    turn(table, instant)
    table.write([(n, f"p{n:05d}", 99, "after") for n in range(10)])


OURS = partial(ours_restores, in_place)
THEIRS = partial(theirs_restores, {})
GOALS = (
    Goal("restore in place", 10, OURS, THEIRS),
    Goal("restore on Spark", 3, partial(ours_restores, on_spark), THEIRS),
    Goal("restore in place, Hudi tuned", 5, OURS, partial(theirs_restores, TUNED)),
    Goal(
        "restore with a metadata table, and the next write",
        2,
        partial(then_writes, OURS),
        partial(then_writes, THEIRS),
        Kind(metadata_table=True),
    ),
    Goal("savepoint", 5, ours_saves, theirs_saves),
    Goal("savepoint with a metadata table", 1, ours_saves, theirs_saves, Kind(metadata_table=True)),
    *(
        Goal(
            f"restore of merge-on-read, version {version}",
            10,
            OURS,
            THEIRS,
            Kind(4, version, merge_on_read=True),
        )
        for version in (6, 9)
    ),
)
GROWTH = "restore among ten times as many untouched partitions"
MOST_GROWTH = 1.5


def measured(goal: Goal, table: RealTable, folder: Path, rounds: int) -> Iterator[Line]:
    """A goal: turns on copies, each round on new ones."""
    instant, turns = saved(table), list[tuple[Cost, Cost]]()
    for _ in range(rounds + 1):
        peer, own = (table.copy(folder / side / table.path.name) for side in ("theirs", "ours"))
        os.sync()  # files that never reached the disk are removed for less
        theirs = cost(partial(goal.theirs, peer, instant))
        turns.append((theirs, cost(partial(goal.ours, own, instant))))
        check_same(goal, own, peer)
        for side in (own, peer):
            shutil.rmtree(side.path)
    peers, owns = zip(*turns[1:], strict=True)
    for place, unit, wanted in ((0, "seconds", 1 / goal.times), (1, "processor seconds", None)):
        peer_s, own_s = (median(turn[place] for turn in side) for side in (peers, owns))
        yield line(f"{goal.name}, {unit}", own_s, wanted, peer=peer_s)


class Cost(NamedTuple):
    """Seconds on the clock, and of processor time."""

    wall: float
    cpu: float


def cost(action: Callable[[], object]) -> Cost:
    """Call it once."""
    before = cpu_of_processes()
    wall = timed(action).wall
    return Cost(wall, cpu_of_processes() - before)


def cpu_of_processes() -> float:
    """Seconds of processor time of this process and all below it: the JVM, Python workers."""
    parents, used = dict[int, int](), dict[int, int]()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = status.read_text().rpartition(")")[2].split()
            number = int(status.parent.name)
            parents[number] = int(fields[1])
            # with those of children that ended
            used[number] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(used[number] for number in own) / os.sysconf("SC_CLK_TCK")


def check_same(goal: Goal, ours: RealTable, theirs: RealTable) -> None:
    """Both must have done their work. Names of a later write are random."""
    own, peer = data_files(ours.path), data_files(theirs.path)
    names = loaded(ours).timeline.savepoints, loaded(theirs).timeline.savepoints
    if len(own) != len(peer) or names[0] != names[1] or (own != peer and "write" not in goal.name):
        raise SystemExit(f"{goal.name}: the tables differ: {sorted(own ^ peer)[:10]}")


def growth(folder: Path, partitions: int, commits: int, rounds: int) -> Iterator[Line]:
    """Restore the same files among as many other partitions, and among ten times as many."""
    few, many = list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(rounds + 1):
        few.append(restored_among(folder / "few", partitions, partitions, commits))
        many.append(restored_among(folder / "many", partitions, 10 * partitions, commits))
    small, large = ([median(side) for side in zip(*case[1:], strict=True)] for case in (few, many))
    for place, (unit, wanted) in enumerate(
        (("seconds without the listing", MOST_GROWTH), ("seconds of the listing", None))
    ):
        yield line(f"{GROWTH}, {unit}", large[place], wanted, peer=small[place])


def restored_among(folder: Path, touched: int, others: int, commits: int) -> tuple[float, float]:
    """Seconds of a restore without those of its listing, and those of the listing."""
    table = HudiTable(folder / "t").create()
    groups = [f"p{n % touched:05d}/g{n:06d}" for n in range(touched * GROUPS)]
    still = [f"q{n % others:05d}/g{n:06d}" for n in range(others * GROUPS)]
    table.commit(0, [*groups, *still])
    table.savepoint(0)
    for number in range(1, commits + 1):
        table.commit(number, groups)
    os.sync()
    storage = Storage(confined_to=[str(folder)])
    listing = timed(lambda: list_partitions(storage, str(table.folder), ThreadMap())).wall
    whole = timed(lambda: table.restore(0)).wall
    shutil.rmtree(folder)
    return whole - listing, listing


def all_measured(args: argparse.Namespace, folder: Path) -> Iterator[Line]:
    """The goals that were asked for."""
    chosen = [g for g in GOALS if is_asked(args.goals, g.name)]
    if chosen:
        written = args.tables or folder / "written"
        with hudi_session(folder / "spark", "2g") as spark:
            hudi = RealHudi(folder, lambda: spark)
            for goal in chosen:
                path = written / f"{goal.kind.name}-{args.partitions}"
                table = write(hudi, path.resolve(), goal.kind, args.partitions)
                yield from measured(goal, table, folder, args.rounds)
    if is_asked(args.goals, GROWTH):
        yield from growth(folder, args.partitions, Kind().commits, args.rounds)


def is_asked(named: list[str], goal: str) -> bool:
    """Whether a goal's name contains one that was given, or none was given."""
    return not named or any(name in goal for name in named)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goals", nargs="*", default=[], help="only those whose names contain one")
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where copies go; default: a temporary folder")
    parser.add_argument("--tables", type=Path, help="where the tables are kept; default: nowhere")
    parser.add_argument("--json", action="store_true", help="print JSON, a line a goal")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=args.folder) as name,
        os.fdopen(os.dup(sys.stdout.fileno()), "w") as stdout,
        redirect_stdout(stdout),
    ):
        os.dup2(2, 1)  # the JVM and what it starts also print to their standard output
        show(all_measured(args, Path(name).resolve()), as_json=args.json)


if __name__ == "__main__":
    main()
