"""What a savepoint reads and holds, counted: it grows with the commits, its memory does not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from support.hudi_tables import HandMade, at, savepoint_request, ticking, warehouse_over
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import Outcome, SavepointCreated, SavepointRejected
from tidegate.hudi.commit import CommitMetadata
from tidegate.hudi.instant import Instant, Layout
from tidegate.hudi_reader import table as hudi_table
from tidegate.hudi_reader.table import HudiTable, load_table
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.lookup import read_commits
from tidegate.storage import Storage

T = TypeVar("T")
R = TypeVar("R")
GROUPS = {f"p{number}": f"g{number}" for number in range(10)}


class Watched:
    """Records how many items each call has."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        self.calls.append(len(items))
        return [function(item) for item in items]


def table_of(root: Path, commits: int) -> HandMade:
    table = HandMade(root / "orders").create()
    for minute in range(1, commits + 1):
        table.commit(at(minute), at(minute - 1) if minute > 1 else None, GROUPS)
    return table


def _names(table: HudiTable) -> set[Instant]:
    return set(table.files)


def opened(table: HandMade) -> HudiTable:
    return load_table(Storage(), table.location)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the metadata of each commit are read."""
    counts, decode = Counter[str](), hudi_table._decoded

    def counted(instant: Instant, content: bytes) -> CommitMetadata:
        counts[instant.timestamp] += 1
        return decode(instant, content)

    monkeypatch.setattr(hudi_table, "_decoded", counted)
    return counts


def savepoint(root: Path, table: HandMade, instant: str) -> Outcome:
    writer = SavepointWriter(warehouse_over(root), ThreadMap(1), ticking())
    [outcome] = writer.execute(savepoint_request(table, instant))
    return outcome


def cleaned(table: HandMade, *, until: int, bound: int) -> None:
    """What Hudi's cleaner does: remove the files of commits that later ones wrote anew."""
    for minute in range(1, until):
        for file in table.path.rglob(f"*_{at(minute)}.parquet"):
            file.unlink()
    table.clean(at(59), at(bound))


@pytest.mark.parametrize("commits", [20, 40])
def test_of_commits_that_the_cleaner_emptied_none_is_read(
    tmp_path: Path, read: Counter[str], commits: int
) -> None:
    table = table_of(tmp_path, commits)
    cleaned(table, until=commits - 3, bound=commits - 2)

    assert isinstance(savepoint(tmp_path, table, at(commits)), SavepointCreated)
    assert read == Counter([at(minute) for minute in range(commits - 3, commits + 1)])


def test_a_commit_from_the_bound_on_is_read_even_if_nothing_of_it_is_left(
    tmp_path: Path, read: Counter[str]
) -> None:
    table = table_of(tmp_path, 8)
    table.commit(at(9), groups={"q": "h"})
    table.commit(at(10), at(8), GROUPS)
    cleaned(table, until=7, bound=9)
    (table.path / f"q/h_0-1-2_{at(9)}.parquet").unlink()

    refused = savepoint(tmp_path, table, at(10))
    assert isinstance(refused, SavepointRejected)
    assert (refused.reason, "h of q" in refused.message) == ("missing-files", True)
    assert set(read) == {at(7), at(8), at(9), at(10)}


def test_a_commit_of_which_a_file_is_left_is_read_and_its_other_files_are_missed(
    tmp_path: Path, read: Counter[str]
) -> None:
    table = HandMade(tmp_path / "orders").create()
    table.commit(at(1), groups={"q": "h", "r": "i"})
    table.commit(at(2), groups=GROUPS)
    table.commit(at(3), at(2), GROUPS)
    table.clean(at(59), at(3))
    (table.path / f"q/h_0-1-2_{at(1)}.parquet").unlink()

    refused = savepoint(tmp_path, table, at(3))
    assert isinstance(refused, SavepointRejected)
    assert "h of q" in refused.message
    assert at(1) in read


def test_what_a_later_commit_replaced_and_the_cleaner_removed_is_missed(
    tmp_path: Path, read: Counter[str]
) -> None:
    """Its replacement does not say whether it was there at the savepoint: all are read."""
    table = table_of(tmp_path, 3)
    table.commit(at(4), groups={"q": "h"})
    table.commit(at(5), at(3), GROUPS)
    table.replace(at(6), {"q": ["h"]}, {"q": "i"})
    for file in (*table.path.rglob(f"*_{at(1)}.parquet"), *table.path.glob("q/h_*")):
        file.unlink()
    table.clean(at(59), "")

    refused = savepoint(tmp_path, table, at(5))
    assert isinstance(refused, SavepointRejected)
    assert "h of q" in refused.message
    assert sorted(read) == [at(minute) for minute in range(1, 7)]


def test_a_savepoint_reads_each_commit_once(tmp_path: Path, read: Counter[str]) -> None:
    table = table_of(tmp_path, 30)
    table.replace(at(31), {"p0": ["g0"]}, {"p0": "g99"})

    assert isinstance(savepoint(tmp_path, table, at(31)), SavepointCreated)
    assert read == Counter({at(minute): 1 for minute in range(1, 32)})


def test_few_commits_are_held_at_a_time_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten files each: with room for forty, four of them."""
    monkeypatch.setattr("tidegate.savepoints.lookup._HELD", 40)
    table, watched = opened(table_of(tmp_path, 50)), Watched()
    stream = read_commits(table, table.timeline.completed_writes, watched)
    assert [timestamp for timestamp, _ in stream] == [at(minute) for minute in range(1, 51)]
    assert max(watched.calls) == 4
    assert sum(watched.calls) == 50


def test_no_commit_is_read_before_it_is_asked_for(tmp_path: Path, read: Counter[str]) -> None:
    table = opened(table_of(tmp_path, 50))
    assert next(read_commits(table, table.timeline.completed_writes, Watched()))[0] == at(1)
    assert read == Counter([at(1)])


def test_small_commits_are_read_many_at_a_time(tmp_path: Path) -> None:
    """Else every one of them would wait for the store alone."""
    table, watched = opened(table_of(tmp_path, 50)), Watched()
    list(read_commits(table, table.timeline.completed_writes, watched))
    assert watched.calls == [1, 2, 4, 8, 16, 19]


@pytest.mark.parametrize("version", [9, 6])
def test_a_name_of_the_timeline_is_parsed_once_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Five times it is looked at who else wrote: with 5,000 instants that took two seconds."""
    table = HandMade(tmp_path / "orders", version).create()
    for minute in range(1, 11):
        table.commit(at(minute))
    parsed, parse = Counter[str](), Instant.parse

    def counted(name: str, layout: Layout) -> Instant | None:
        parsed[name] += 1
        return parse(name, layout)

    monkeypatch.setattr(Instant, "parse", counted)
    hudi_table._instant.cache_clear()
    assert isinstance(savepoint(tmp_path, table, at(10)), SavepointCreated)
    ours = {name for name in parsed if "savepoint" in name or "tidegate" in name}
    assert {parsed[name] for name in parsed.keys() - ours} == {1}
    assert len(parsed) > 30


@pytest.mark.parametrize("version", [9, 6])
def test_a_table_read_again_is_as_one_that_is_read_for_the_first_time(
    tmp_path: Path, version: int
) -> None:
    table = HandMade(tmp_path / "orders", version).create()
    for minute in (1, 2):
        table.commit(at(minute))
    before = opened(table)
    (_, gone) = sorted(table.timeline.glob("*.commit"))
    gone.unlink()
    table.begin(at(3))
    after = before.reloaded()
    assert (after.timeline, _names(after)) == (opened(table).timeline, _names(opened(table)))
    assert after.timeline.completed_writes == before.timeline.completed_writes[:1]


def test_of_version_6_a_new_modification_time_is_seen(tmp_path: Path) -> None:
    """Hudi takes it for the completion."""
    table = HandMade(tmp_path / "orders", 6).create()
    table.commit(at(1))
    before = opened(table)
    (done,) = table.timeline.glob("*.commit")
    os.utime(done, (10**9, 10**9))
    [write] = before.reloaded().timeline.completed_writes
    assert write == opened(table).timeline.completed_writes[0]
    assert write != before.timeline.completed_writes[0]


def test_a_savepoint_is_as_many_parallel_jobs_over_many_partitions_as_over_few(
    tmp_path: Path,
) -> None:
    """Each may be a Spark job, which takes a while: only its number of items grows."""
    jobs: dict[int, list[int]] = {}
    for partitions in (30, 300):
        table = HandMade(tmp_path / str(partitions)).create()
        groups = {f"p{number:03}": f"g{number}" for number in range(partitions)}
        table.commit(at(1), None, groups)
        watched = Watched()
        writer = SavepointWriter(warehouse_over(table.path.parent), watched, ticking())
        *_, last = writer.execute(savepoint_request(table, at(1)))

        assert isinstance(last, SavepointCreated)
        assert last.files == partitions
        jobs[partitions] = watched.calls

    assert [len(job) for job in jobs.values()] == [3, 3]
    assert [sum(job) for job in jobs.values()] == [32, 302]
