"""Savepoints and restores beside real Hudi's own procedures, in one warm Spark session.

    PYTHONPATH=tests .venv/bin/python benchmarks/hudi.py
        [--goals savepoint restore] [--partitions 200] [--rounds 3] [--tables DIR] [--json]

Real Hudi writes the tables: three inserts, so that each partition has three file groups, and a
savepoint on the last; then upserts of every group. Both sides work on byte copies of one table with
the times preserved, and take turns, ours second; the first round warms both up and does not count.
After each turn both tables must have the same data files. The ratio is the median of the rounds',
because other work on the machine falls into single rounds. `--tables` keeps the tables that were
written, and uses those that are there.

The last goal needs no peer: a restore of the same files among ten times as many other partitions,
without the time of listing them, which is printed beside.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from growth import timed
from growth_tables import HudiTable

from support.hudi_tables import data_files
from support.judged import restore, savepoint
from support.merge_on_read import loaded
from support.real_hudi import RealTable, Row
from support.spark import hudi_session
from tidegate.compute.parallel_map import SparkMap, ThreadMap
from tidegate.events import RestoreCompleted, SavepointCreated
from tidegate.hudi_reader import list_partitions
from tidegate.storage import ParallelMap, Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    """Ours and theirs on a kind of table; at least so many times as fast."""

    name: str
    wanted: float
    ours: Turn
    theirs: Turn
    kind: Kind = field(default_factory=Kind)


def rows(partitions: int, group: int, ts: int) -> list[Row]:
    """A row of one file group in each partition."""
    return [(group * partitions + n, f"p{n:05d}", ts, f"row {ts}") for n in range(partitions)]


def write(spark: SparkSession, path: Path, kind: Kind, partitions: int) -> RealTable:
    """Have Hudi write a table, its savepoint, and the commits after it."""
    table = RealTable(
        spark, path, kind.version, kind.metadata_table, merge_on_read=kind.merge_on_read
    )
    if path.exists():
        return table
    separate = {"hoodie.parquet.small.file.limit": "0"}
    for group in range(GROUPS):
        table.write(rows(partitions, group, group), "insert", separate)
    table.call("create_savepoint", commit_time=last_commit(table))
    for ts in range(GROUPS, GROUPS + kind.commits):
        table.write([row for group in range(GROUPS) for row in rows(partitions, group, ts)])
    return table


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
    for key, value in settings.items():
        table.spark.conf.set(key, value)
    try:
        call()
    finally:
        for key in settings:
            table.spark.conf.unset(key)


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
    return SparkMap(lambda: table.spark)


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


def measured(goal: Goal, table: RealTable, folder: Path, rounds: int) -> dict[str, Any]:
    """A goal: turns on copies, each round on new ones."""
    instant, turns = saved(table), list[tuple[float, float]]()
    for _ in range(rounds + 1):
        peer, own = (table.copy(folder / side / table.path.name) for side in ("theirs", "ours"))
        os.sync()  # files that never reached the disk are removed for less
        turns.append(
            (
                timed(partial(goal.theirs, peer, instant)).wall,
                timed(partial(goal.ours, own, instant)).wall,
            )
        )
        check_same(goal, own, peer)
        for side in (own, peer):
            shutil.rmtree(side.path)
    theirs, ours = (median(side) for side in zip(*turns[1:], strict=True))
    by_round = [round(peer / own, 2) for peer, own in turns[1:]]
    found = line(goal.name, ours, theirs, median(by_round), goal.wanted)
    return found | {"by_round": by_round}


def check_same(goal: Goal, ours: RealTable, theirs: RealTable) -> None:
    """Both must have done their work. Names of a later write are random."""
    own, peer = data_files(ours.path), data_files(theirs.path)
    names = loaded(ours).timeline.savepoints, loaded(theirs).timeline.savepoints
    if len(own) != len(peer) or names[0] != names[1] or (own != peer and "write" not in goal.name):
        raise SystemExit(f"{goal.name}: the tables differ: {sorted(own ^ peer)[:10]}")


def line(name: str, ours: float, peer: float, ratio: float, wanted: float) -> dict[str, Any]:
    """What is printed of a goal. Seconds, and the peer's time over ours."""
    return {
        "goal": name,
        "ours": round(ours, 3),
        "peer": round(peer, 3),
        "ratio": round(ratio, 2),
        "wanted": wanted,
        "reached": ratio >= wanted,
    }


def growth(folder: Path, partitions: int, commits: int, rounds: int) -> dict[str, Any]:
    """Restore the same partitions among as many others, and among ten times as many."""
    few, many = list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(rounds + 1):
        few.append(restored_among(folder / "few", partitions, partitions, commits))
        many.append(restored_among(folder / "many", partitions, 10 * partitions, commits))
    (small, small_listing), (large, large_listing) = (
        (median(side) for side in zip(*each[1:], strict=True)) for each in (few, many)
    )
    ratio = large / small
    return line(GROWTH, large, small, ratio, MOST_GROWTH) | {
        "reached": ratio <= MOST_GROWTH,
        "at_most": True,
        "listing": [round(small_listing, 3), round(large_listing, 3)],
    }


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


def all_measured(args: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The goals that were asked for."""
    chosen = [g for g in GOALS if is_asked(args.goals, g.name)]
    if chosen:
        written = args.tables or folder / "written"
        with hudi_session(folder / "spark", "2g") as spark:
            for goal in chosen:
                path = written / f"{goal.kind.name}-{args.partitions}"
                table = write(spark, path.resolve(), goal.kind, args.partitions)
                yield measured(goal, table, folder, args.rounds)
    if is_asked(args.goals, GROWTH):
        yield growth(folder, args.partitions, Kind().commits, args.rounds)


def is_asked(named: list[str], goal: str) -> bool:
    """Whether a goal's name contains one that was given, or none was given."""
    return not named or any(each in goal for each in named)


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
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        for found in all_measured(args, Path(name).resolve()):
            print(json.dumps(found) if args.json else shown(found), flush=True)


def shown(found: dict[str, Any]) -> str:
    """A goal as text."""
    bound = "at most" if found.get("at_most") else "at least"
    more = f" {found['by_round']}" if "by_round" in found else f" listing {found['listing']} s"
    return (
        f"{'' if found['reached'] else '! '}{found['goal']}: {found['ours']:.3f} s,"
        f" peer {found['peer']:.3f} s, ratio {found['ratio']:.2f} ({bound} {found['wanted']:g})"
        f"{more}"
    )


if __name__ == "__main__":
    main()
