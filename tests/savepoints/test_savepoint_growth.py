"""What a savepoint reads and holds, counted: it grows with the commits, its memory does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from support.hudi_tables import HandMade, at, savepoint_request, ticking, warehouse_over
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import SavepointCreated
from tidegate.hudi_reader import HudiTable, load_table
from tidegate.savepoints import SavepointWriter
from tidegate.savepoints.lookup import read_commits
from tidegate.storage import Storage

if TYPE_CHECKING:
    import pytest

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


def opened(table: HandMade) -> HudiTable:
    return load_table(Storage(), table.location)


def test_a_savepoint_reads_each_commit_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, read = table_of(tmp_path, 30), Counter[str]()
    table.replace(at(31), {"p0": ["g0"]}, {"p0": "g99"})
    read_commit = HudiTable.read_commit

    def counted(self: HudiTable, instant: object) -> object:
        read[str(getattr(instant, "timestamp", ""))] += 1
        return read_commit(self, instant)  # type: ignore[arg-type]

    monkeypatch.setattr(HudiTable, "read_commit", counted)
    writer = SavepointWriter(warehouse_over(tmp_path), ThreadMap(1), ticking())
    [created] = writer.execute(savepoint_request(table, at(31)))
    assert isinstance(created, SavepointCreated)
    # a replacement is read before the listing too: its groups are in no slice
    assert read == Counter({at(minute): 1 for minute in range(1, 31)}) + Counter({at(31): 2})


def test_few_commits_are_held_at_a_time_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten files each: with room for forty, four of them."""
    monkeypatch.setattr("tidegate.savepoints.lookup._HELD", 40)
    table, watched = opened(table_of(tmp_path, 50)), Watched()
    commits = table.timeline.completed_writes
    stream = read_commits(table, commits, watched)
    assert next(stream)[0] == at(1)
    assert watched.calls == [1]
    assert [timestamp for timestamp, _ in stream] == [at(minute) for minute in range(2, 51)]
    assert max(watched.calls) == 4
    assert sum(watched.calls) == 50


def test_small_commits_are_read_many_at_a_time(tmp_path: Path) -> None:
    """Else every one of them would wait for the store alone."""
    table, watched = opened(table_of(tmp_path, 50)), Watched()
    list(read_commits(table, table.timeline.completed_writes, watched))
    assert watched.calls == [1, 2, 4, 8, 16, 19]
