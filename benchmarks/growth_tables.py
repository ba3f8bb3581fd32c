"""The rows of growth.py about tables: listings, timelines, savepoints, restores, cleaning."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import fastavro
import fsspec
from growth import ROUNDS, Goal, Row, Seconds, Timing, in_turns, timed

from cleaning import make_table, walk
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import SparkMap, ThreadMap
from tidegate.events import (
    CleaningReleased,
    DirectoriesCleaned,
    Outcome,
    RestoreCompleted,
    RestoreRequested,
    SavepointCreated,
    SavepointRequested,
)
from tidegate.hudi import containers
from tidegate.hudi.instant import Action, Instant, InstantState, Layout
from tidegate.hudi_reader.table import load_table
from tidegate.restores.executor import Restorer
from tidegate.restores.preparation import plan_restore
from tidegate.savepoints.executor import SavepointWriter
from tidegate.storage import ParallelMap, Storage
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
THREADS = 8
T = TypeVar("T", bound=Outcome)
WHO = {"occurred_at": NOW, "source": "bench", "requested_by": "bench"}


class HudiTable:
    """A copy-on-write table of version 9, written by hand: real names and metadata, tiny files."""

    def __init__(self, folder: Path) -> None:
        """Take its base path."""
        self.folder = folder
        self.timeline = folder / ".hoodie/timeline"

    def create(self) -> HudiTable:
        """Write its properties."""
        self.timeline.mkdir(parents=True)
        properties = {
            "hoodie.table.name": self.folder.name,
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.timeline.timezone": "UTC",
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.folder / ".hoodie/hoodie.properties").write_text(text)
        return self

    def commit(self, number: int, files: Iterable[str], *, written: bool = True) -> None:
        """A completed commit that wrote these file groups (`partition/group`).

        `written`: whether the data files are still there; the metadata name them anyway.
        """
        instant = at(number)
        stats: dict[str, list[dict[str, object]]] = {}
        for file in files:
            partition, _, group = file.rpartition("/")
            path = f"{partition}/{group}_0-1-2_{instant}.parquet".lstrip("/")
            if written:
                self.data(path)
            stats.setdefault(partition, []).append(
                {
                    "fileId": group,
                    "path": path,
                    "prevCommit": at(number - 1) if number else "null",
                    "partitionPath": partition,
                    "fileSizeInBytes": 4,
                    "numWrites": 1000,
                    "totalWriteBytes": 435000,
                    "totalWriteErrors": 0,
                }
            )
        content = containers.encode("HoodieCommitMetadata", {"partitionToWriteStats": stats})
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
            self.put(Instant(instant, Action.COMMIT, state), b"")
        self.put(Instant(instant, Action.COMMIT, InstantState.COMPLETED, end_of(number)), content)

    def clean(self, number: int, bound: int) -> None:
        """A completed clean that kept every file from a commit on."""
        fields = [{"name": "earliestCommitToRetain", "type": "string"}]
        schema = {"type": "record", "name": "HoodieCleanMetadata", "fields": fields}
        content = io.BytesIO()
        fastavro.writer(content, schema, [{"earliestCommitToRetain": at(bound)}])
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
            self.put(Instant(at(number), Action.CLEAN, state), b"")
        done = Instant(at(number), Action.CLEAN, InstantState.COMPLETED, end_of(number))
        self.put(done, content.getvalue())

    def data(self, path: str) -> None:
        """A data file, in a directory that is marked as a partition."""
        file = self.folder / path
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            (file.parent / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        file.write_bytes(b"rows")

    def put(self, instant: Instant, content: bytes) -> None:
        """A file of the timeline, with the checksum that Hadoop writes beside it."""
        name = instant.file_name(Layout.TWO)
        (self.timeline / name).write_bytes(content)
        (self.timeline / f".{name}.crc").write_bytes(b"crc\0\0\0\0\0")

    def savepoint(self, number: int, parallel: ParallelMap | None = None) -> SavepointCreated:
        """Have Tidegate write a savepoint of a commit, on threads unless by another map."""
        command = SavepointRequested.model_validate(
            {**WHO, "table": f"l.d.{self.folder.name}", "location": str(self.folder)}
            | {"instant": at(number), "comment": "", "event_id": f"savepoint-{number}"}
        )
        writer = SavepointWriter(over(self.folder), parallel or ThreadMap(THREADS), ticking())
        return done(writer.execute(command), SavepointCreated)

    def restore(self, number: int) -> RestoreCompleted:
        """Have Tidegate restore the table."""
        command = RestoreRequested.model_validate(
            {**WHO, "table": f"l.d.{self.folder.name}", "location": str(self.folder)}
            | {"savepoint": at(number), "reason": "bench", "event_id": f"restore-{number}"}
            | {"seen_up_to": "99991231235959999"}
        )
        restorer = Restorer(over(self.folder), ThreadMap(THREADS), ticking())
        return done(restorer.execute(command), RestoreCompleted)


def at(number: int) -> str:
    """The instant of a commit, one a minute."""
    return f"{FIRST + timedelta(minutes=number):%Y%m%d%H%M}00000"


def end_of(number: int) -> str:
    """When that commit completed."""
    return f"{at(number)[:12]}30000"


def ticking() -> partial[datetime]:
    """A clock that moves on by a second at every look."""
    ticks = count()
    return partial(lambda: NOW + timedelta(seconds=next(ticks)))


def over(folder: Path) -> Warehouse:
    """A warehouse around one table."""
    return Warehouse(WarehouseRoots.of(str(folder.parent)))


def done(outcomes: Iterable[Outcome], kind: type[T]) -> T:
    """The last outcome, which must be of that kind."""
    *_, last = outcomes
    if not isinstance(last, kind):
        raise SystemExit(f"{kind.__name__} expected, not {last!r:.500}")
    return last


def bare_listing(folder: Path) -> int:
    """List and stat, as any listing with sizes must."""
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


def bare_walk(folder: Path) -> int:
    """List and stat everything below."""
    size = 0
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            size += bare_walk(Path(entry.path))
        else:
            size += entry.stat(follow_symlinks=False).st_size
    return size


def bare_read(files: Sequence[Path]) -> int:
    """Read files whole."""
    return sum(len(file.read_bytes()) for file in files)


def bare_unlink(folder: Path, names: Sequence[str]) -> None:
    """Remove the files of one directory on as many threads, from names that are known."""
    batches = [names[start : start + 1000] for start in range(0, len(names), 1000)]

    def unlink(batch: Sequence[str]) -> None:
        for name in batch:
            os.unlink(folder / name)  # noqa: PTH108 - the bare call is what is measured

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(unlink, batches))


# list a directory


def prepare_listing(folder: Path, size: int) -> None:
    """Many small files in one directory."""
    (folder / "d").mkdir()
    for number in range(size):
        (folder / f"d/part-{number:07d}").write_bytes(b"rows")


def measure_listing(folder: Path, size: int) -> Timing:
    """`Storage.list` beside scandir and stat."""
    storage = Storage(confined_to=[str(folder)])
    found = in_turns(
        ours=lambda: storage.list(str(folder / "d")), floor=lambda: bare_listing(folder / "d")
    )
    if len(storage.list(str(folder / "d"))) != size:
        raise SystemExit("the listing is incomplete")
    return found


def measure_remote_listing(folder: Path, size: int) -> Timing:
    """The same through fsspec, beside fsspec's own listing (in memory: no store waits)."""
    storage = Storage()
    fs, path = fsspec.url_to_fs(f"memory://{folder.name}/d")
    for number in range(size):
        fs.pipe_file(f"{path}/part-{number:07d}", b"rows")
    return in_turns(
        ours=lambda: storage.list(f"memory://{folder.name}/d"),
        floor=lambda: fs.ls(path, detail=True),
    )


# timelines and savepoints


def prepare_timeline(folder: Path, size: int) -> None:
    """Commits of one file each, all with checksums."""
    table = HudiTable(folder / "t").create()
    for number in range(size):
        table.commit(number, ["p/g"], written=number >= size - 2)


def measure_timeline(folder: Path, size: int) -> Timing:
    """Loading it, beside a bare listing of its directory."""
    table = HudiTable(folder / "t")
    found = in_turns(
        ours=lambda: load_table(Storage(), str(table.folder)),
        floor=lambda: bare_listing(table.timeline),
    )
    if len(load_table(Storage(), str(table.folder)).timeline.completed_writes) != size:
        raise SystemExit("the timeline is incomplete")
    return found


def measure_savepoint(folder: Path, size: int) -> Timing:
    """A savepoint of the last commit, beside a bare reading of the table's commits."""
    table = HudiTable(folder / "t")
    commits = sorted(table.timeline.glob("*.commit"))
    floor = timed(lambda: (bare_walk(table.folder), bare_read(commits)))
    return Timing(ours=timed(lambda: table.savepoint(size - 1)), floor=floor)


def prepare_wide_commits(folder: Path, size: int) -> None:
    """Commits that each rewrote the same 2,000 file groups; the last two of each are there."""
    table = HudiTable(folder / "t").create()
    groups = [f"p{number % 20}/g{number:05d}" for number in range(2000)]
    for number in range(size):
        table.commit(number, groups, written=number >= size - 2)
    table.clean(size, size - 2)


def measure_wide_savepoint(folder: Path, size: int) -> Timing:
    """A savepoint of the last commit, beside a bare reading of everything."""
    return measure_savepoint(folder, size)


def prepare_partitions(folder: Path, size: int) -> None:
    """A commit of one file in each of many partitions, a savepoint, and another commit."""
    table = HudiTable(folder / "t").create()
    groups = [f"day={number:06d}/g{number}" for number in range(size)]
    table.commit(0, groups)
    table.savepoint(0)
    table.commit(1, groups)


def measure_partitions_savepoint(folder: Path, _: int) -> Timing:
    """A savepoint of the second commit, beside a bare walk."""
    table = HudiTable(folder / "t")
    floor = timed(lambda: bare_walk(table.folder))
    return Timing(ours=timed(lambda: table.savepoint(1)), floor=floor)


def prepare_tenfold(folder: Path, size: int) -> None:
    """A commit of one file in each partition, and the same with a tenth of the partitions."""
    for name, partitions in (("t", size), ("tenth", size // 10)):
        HudiTable(folder / name).create().commit(0, groups_of(partitions))


def groups_of(partitions: int, step: int = 1) -> list[str]:
    """A file group in every partition, or in every so manieth."""
    return [f"day={number:06d}/g{number}" for number in range(0, partitions, step)]


def first_savepoint(table: HudiTable, parallel: ParallelMap | None = None) -> None:
    """A savepoint of the first commit, as if there were none: all partitions are listed."""
    for file in table.timeline.glob("*savepoint*"):
        file.unlink()
    shutil.rmtree(table.folder / ".hoodie/.tidegate", ignore_errors=True)
    if table.savepoint(0, parallel).derived_from is not None:
        raise SystemExit("the first savepoint was derived")


def measure_first_savepoint(folder: Path, _: int) -> Timing:
    """The first savepoint, beside that of a tenth of the partitions."""
    table, tenth = HudiTable(folder / "t"), HudiTable(folder / "tenth")
    return in_turns(ours=lambda: first_savepoint(table), floor=lambda: first_savepoint(tenth))


def measure_next_savepoint(folder: Path, size: int) -> Timing:
    """The savepoint after a commit of 100 files, beside that of a tenth of the partitions."""
    tables = {HudiTable(folder / "t"): size, HudiTable(folder / "tenth"): size // 10}
    found: dict[HudiTable, list[Seconds]] = {table: [] for table in tables}
    for table in tables:
        first_savepoint(table)
    for number in range(1, 2 + 2 * ROUNDS):
        # in turns, and each as often the first of the two
        for table, partitions in sorted(tables.items(), key=lambda item: item[1] * (-1) ** number):
            table.commit(number, groups_of(partitions, partitions // 100))
            outcome: list[SavepointCreated] = []
            seconds = timed(lambda: outcome.append(table.savepoint(number)))  # noqa: B023 - called at once
            if number > 1:
                found[table].append(seconds)
            if outcome[0].derived_from is None or outcome[0].files != partitions:
                raise SystemExit(f"it was not derived: {outcome}")
    ours, floor = (min(timings, key=lambda seconds: seconds.wall) for timings in found.values())
    return Timing(ours=ours, floor=floor)


def prepare_spark(folder: Path, size: int) -> None:
    """A commit of one file in each of many partitions."""
    HudiTable(folder / "t").create().commit(0, groups_of(size))


def measure_spark_savepoint(folder: Path, _: int) -> Timing:
    """The first savepoint on Spark local[2], beside the same in place; the session is started."""
    from tidegate.compute.spark import lazy_session  # noqa: PLC0415 - of this row only

    table = HudiTable(folder / "t")
    session = lazy_session({"spark.master": "local[2]", "spark.ui.enabled": "false"})
    started = timed(session)
    on_spark = SparkMap(session)
    on_spark.map(abs, range(100))  # the first job starts Python's workers
    found = in_turns(
        ours=lambda: first_savepoint(table, on_spark), floor=lambda: first_savepoint(table)
    )
    session().stop()
    return replace(found, counts={"seconds of the session": started.wall})


# restores


def measure_partitions_plan(folder: Path, size: int) -> Timing:
    """The plan of a restore, beside a bare walk."""
    table = HudiTable(folder / "t")
    floor = timed(lambda: bare_walk(table.folder))
    found = timed(lambda: plan_restore(over(table.folder), str(table.folder), at(0)))
    if plan_restore(over(table.folder), str(table.folder), at(0)).files != size:
        raise SystemExit("the plan is incomplete")
    return Timing(ours=found, floor=floor)


def prepare_many_commits(folder: Path, size: int) -> None:
    """A savepoint, then commits of ten files each."""
    table = HudiTable(folder / "t").create()
    groups = [f"p{number % 2}/g{number}" for number in range(10)]
    for number in range(size + 1):
        table.commit(number, groups)
    table.savepoint(0)
    shutil.copytree(table.folder, folder / "bare")


def measure_restore(folder: Path, _: int) -> Timing:
    """A restore over all commits, beside unlinking the same files on as many threads."""
    table = HudiTable(folder / "t")
    bare = HudiTable(folder / "bare")
    commits = sorted(table.timeline.glob("*.commit"))
    removed: Mapping[Path, list[str]] = {
        partition: sorted(f.name for f in partition.glob("*.parquet") if at(0) not in f.name)
        for partition in (bare.folder / "p0", bare.folder / "p1")
        if partition.exists()
    }

    def floor() -> None:
        bare_read(commits)
        for partition, names in removed.items():
            bare_unlink(partition, names)

    found = Timing(floor=timed(floor), ours=timed(lambda: table.restore(0)))
    left = sum(at(0) not in f.name for f in table.folder.rglob("*.parquet"))
    if left or not sum(map(len, removed.values())):
        raise SystemExit(f"the restore left {left} files")
    return found


def prepare_one_partition(folder: Path, size: int) -> None:
    """A savepoint, then one commit of many files in one partition."""
    table = HudiTable(folder / "t").create()
    table.commit(0, ["p0/g"])
    table.savepoint(0)
    table.commit(1, [f"p0/g{number:06d}" for number in range(size)])
    shutil.copytree(table.folder, folder / "bare")


# cleaning


def prepare_plan(folder: Path, size: int) -> None:
    """Deltas of two files each, and the delta that a vacuum merged them into."""
    save_command(folder / "planned", size)


def save_command(folder: Path, size: int) -> None:
    """Make the table, and keep its command beside it."""
    command = make_table(folder, size)
    folder.with_suffix(".json").write_text(command.model_dump_json())


def read_command(folder: Path) -> CleaningReleased:
    """The command of a table."""
    return CleaningReleased.model_validate_json(folder.with_suffix(".json").read_text())


def cleaner_of(folder: Path) -> Cleaner:
    """A cleaner as the service runs it."""
    return Cleaner(over(folder), ThreadMap(THREADS), lambda: datetime.now(UTC))


def measure_plan(folder: Path, size: int) -> Timing:
    """The cleaning's plan, listing included, beside a bare walk."""
    table = folder / "planned"
    cleaner, command = cleaner_of(table), read_command(table)
    if len(cleaner.plan(command).remove) != size:
        raise SystemExit("the plan is incomplete")
    return in_turns(ours=lambda: cleaner.plan(command), floor=lambda: walk(table))


def prepare_cleaning(folder: Path, size: int) -> None:
    """Two tables of one kind."""
    save_command(folder / "bare", size)
    save_command(folder / "cleaned", size)


def measure_cleaning(folder: Path, size: int) -> Timing:
    """The whole cleaning, beside rmtree of one directory after the other."""
    table = folder / "cleaned"
    cleaner, command = cleaner_of(table), read_command(table)
    obsolete = sorted((folder / "bare").glob("delta_*_*_0000"))

    def remove_one_by_one() -> None:
        for directory in obsolete:
            shutil.rmtree(directory)

    floor = timed(remove_one_by_one)
    found = Timing(
        ours=timed(lambda: done(cleaner.execute(command), DirectoriesCleaned)), floor=floor
    )
    # not by the outcome: of so many directories it names a part
    left = [path.name for path in table.iterdir()]
    if left != list(command.directories) or len(obsolete) != size:
        raise SystemExit("the cleaning is incomplete")
    return found


ROWS = (
    Row("list a directory", "entries", (500, 5_000, 50_000), prepare_listing, measure_listing),
    Row(
        "list a remote directory",
        "entries",
        (500, 5_000, 50_000),
        lambda *_: None,
        measure_remote_listing,
    ),
    Row(
        "load a timeline with checksums",
        "instants",
        (50, 500, 5_000),
        prepare_timeline,
        measure_timeline,
        Goal(seconds=0.5, ratio=3),
    ),
    Row(
        "savepoint on that timeline",
        "instants",
        (50, 500, 5_000),
        prepare_timeline,
        measure_savepoint,
        Goal(seconds=2),
    ),
    Row(
        "savepoint over commits of 2,000 files",
        "commits",
        (3, 30, 300),
        prepare_wide_commits,
        measure_wide_savepoint,
    ),
    Row(
        "savepoint over partitions",
        "partitions",
        (500, 5_000, 50_000),
        prepare_partitions,
        measure_partitions_savepoint,
    ),
    Row(
        "first savepoint, beside a tenth of the partitions",
        "partitions",
        (2_000, 20_000),
        prepare_tenfold,
        measure_first_savepoint,
        Goal(ratio=12),
    ),
    Row(
        "next savepoint, beside a tenth of the partitions",
        "partitions",
        (2_000, 20_000),
        prepare_tenfold,
        measure_next_savepoint,
        Goal(ratio=1.5),
    ),
    Row(
        "first savepoint on Spark local[2], beside in place",
        "partitions",
        (100, 1_000, 10_000),
        prepare_spark,
        measure_spark_savepoint,
    ),
    Row(
        "plan of a restore over partitions",
        "partitions",
        (500, 5_000, 50_000),
        prepare_partitions,
        measure_partitions_plan,
    ),
    Row(
        "restore over commits of 10 files",
        "commits",
        (5, 50, 500),
        prepare_many_commits,
        measure_restore,
        Goal(seconds=15),
    ),
    Row(
        "restore of files in one partition",
        "files",
        (1_000, 10_000, 100_000),
        prepare_one_partition,
        measure_restore,
        Goal(ratio=1.5),
    ),
    Row(
        "plan of a cleaning",
        "deltas",
        (2_000, 20_000, 200_000),
        prepare_plan,
        measure_plan,
        Goal(ratio=3),
    ),
    Row(
        "cleaning",
        "deltas",
        (500, 5_000, 50_000),
        prepare_cleaning,
        measure_cleaning,
        Goal(ratio=0.5),
    ),
)
