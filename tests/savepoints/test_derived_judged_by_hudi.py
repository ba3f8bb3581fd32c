"""Derived savepoints of tables that real Hudi writes: equal to a listing, and good for Hudi."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.hudi_records import RealHudi
from support.judged import savepoint, savepoint_files
from support.merge_on_read import (
    CLEANED,
    CLUSTERED,
    COMPACTED,
    LOG_COMPACTED,
    SCHEDULED,
    interrupt,
    loaded,
)
from support.real_hudi import RealTable, Row, rows
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import SavepointCreated
from tidegate.hudi.instant import Action, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.savepoints.derivation import InDoubt
from tidegate.savepoints.incremental import derive_savepoint, list_savepoint
from tidegate.savepoints.plan import SavepointPlan
from tidegate.savepoints.rules import MOST_DERIVED

ARCHIVED: Final = CLEANED | {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
KINDS: Final = ((9, False), (6, False), (8, True), (6, True), (9, True), (8, False))
PENDING: Final = (InstantState.REQUESTED, InstantState.INFLIGHT)
MANY: Final = 40
"""Partitions: more than a block of a savepoint's file has."""


def kept(plan: SavepointPlan) -> dict[str, tuple[str, ...]]:
    return {path: names for path, names in plan.files.items() if names}


def test_hudi_cleans_no_file_of_a_derived_savepoint_of_many_partitions(hudi: RealHudi) -> None:
    """It reads the partitions in several blocks, which it never writes itself."""
    table = RealTable(hudi, hudi.root / "lake/orders", 9, metadata_table=False)
    data = [(i, f"p{i:02d}", 1, "first") for i in range(MANY)]
    table.write(data, "insert")
    assert isinstance(savepoint(table, None, ThreadMap()), SavepointCreated)
    table.write([(i, p, 2, "second") for i, p, _, _ in data[::7]])
    outcome = savepoint(table, None, ThreadMap())
    assert isinstance(outcome, SavepointCreated)
    assert outcome.derived_from is not None
    expected = table.read()
    for ts in (3, 4):
        table.write([(i, p, ts, "later") for i, p, _, _ in data], more=CLEANED)
    table.write(data[:1], more=CLEANED)

    (newest,) = table.path.glob(f".hoodie/timeline/{outcome.instant}*.savepoint")
    files = SavepointMetadata.decode(newest.read_bytes()).files
    assert len(files) == MANY
    assert all((table.path / p / name).exists() for p, names in files.items() for name in names)
    assert len(list(table.path.glob("p*/*.parquet"))) < 4 * MANY, "nothing was cleaned"
    table.call("rollback_to_savepoint", instant_time=outcome.instant)
    assert table.read() == expected


class Writer:
    """Does one thing after the other to a table, at random."""

    def __init__(self, table: RealTable, seed: int) -> None:
        self.table = table
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.ts = 0
        self.done: list[str] = []

    def step(self) -> None:
        choices: dict[str, Callable[[], None]] = {
            "upsert": self.upsert,
            "insert": lambda: self.write(rows(range(self.ts * 10, self.ts * 10 + 3), "new", 0)),
            "cluster": lambda: self.upsert(**CLUSTERED),
            "overwrite": lambda: self.write([(6, "p0", 0, "over")], "insert_overwrite"),
            "new partition": lambda: self.write([(90, f"q{self.ts}", 0, "new")], "insert"),
            "die": self.die,
            "clean": lambda: self.upsert(**CLEANED),
            "archive": lambda: self.upsert(**ARCHIVED),
            "remove": self.remove,
        }
        if self.table.merge_on_read:
            choices |= {
                "compact": lambda: self.upsert(**COMPACTED),
                "schedule": lambda: self.upsert(**SCHEDULED),
                "log compact": lambda: self.upsert(**LOG_COMPACTED),
            }
        if loaded(self.table).timeline.of_action(Action.COMPACTION, *PENDING):
            choices["run"] = self.run
            for unfit in ("schedule", "compact", "cluster", "overwrite"):
                del choices[unfit]
        name = self.random.choice(list(choices))
        self.done.append(name)
        choices[name]()

    def write(self, data: list[Row], operation: str = "upsert", **more: str) -> None:
        self.ts += 1
        stamped = [(i, p, self.ts, f"{tag} {self.ts}") for i, p, _, tag in data]
        self.table.write(stamped, operation, more)

    def upsert(self, **more: str) -> None:
        ids = self.random.sample(range(8), self.random.randint(1, 5))
        self.write([(i, f"p{i % 2}", 0, "up") for i in ids], **more)

    def die(self) -> None:
        self.upsert()
        interrupt(self.table)

    def run(self) -> None:
        self.table.call("run_compaction", op="run")

    def remove(self) -> None:
        savepoints = sorted(loaded(self.table).timeline.savepoints)
        if len(savepoints) > 1:
            self.table.call("delete_savepoint", instant_time=savepoints[0])


@pytest.mark.spark
@pytest.mark.judge
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("seed", range(12))
def test_of_a_random_history_a_derived_savepoint_is_that_of_a_listing_and_hudis(
    live_hudi: RealHudi, tmp_path: Path, seed: int, kind: str
) -> None:
    version, metadata_table = KINDS[seed % len(KINDS)]
    path = tmp_path / "o/orders"
    merge_on_read = kind == "merge-on-read"
    table = RealTable(live_hudi, path, version, metadata_table, merge_on_read=merge_on_read)
    writer, derived = Writer(table, seed), 0
    table.write([*rows(range(8), "first", 0), (80, "still", 0, "here")], "insert")
    assert isinstance(savepoint(table, None, ThreadMap()), SavepointCreated)
    for number in range(6):
        for _ in range(writer.random.randint(1, 3)):
            writer.step()
        now = loaded(table)
        last = now.timeline.last_completed_write()
        assert last is not None
        if last.timestamp in now.timeline.savepoints:
            continue
        listed = list_savepoint(now, last.timestamp, None, ThreadMap())
        try:
            found = derive_savepoint(now, last.timestamp, ThreadMap(), MOST_DERIVED)
            derived += 1
            assert kept(found) == kept(listed), writer.done
            assert (found.bytes, found.file_count) == (listed.bytes, listed.file_count)
        except InDoubt as doubt:
            writer.done.append(f"({doubt})")
        theirs = table.copy(tmp_path / f"theirs{number}/orders")
        assert isinstance(savepoint(table, last.timestamp, ThreadMap()), SavepointCreated)
        theirs.call("create_savepoint", commit_time=last.timestamp)
        ours, of_hudi = savepoint_files(table), savepoint_files(theirs)
        assert all(set(names) <= ours[p] for p, names in of_hudi.items()), writer.done
        if not now.timeline.of_action(Action.COMPACTION, *PENDING):
            assert {p: n for p, n in ours.items() if n} == {p: n for p, n in of_hudi.items() if n}
    assert derived or any("(" in line for line in writer.done)
