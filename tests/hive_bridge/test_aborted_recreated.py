"""A table that is dropped and created again begins with the same write ids, and others aborted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import pytest

from support.acid import build
from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.plan import content_of
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import WritesAborted
from tidegate.hive.write_ids import NOTHING_OPEN, ValidWriteIds
from tidegate.hive_bridge import aborted_sweep
from tidegate.hive_bridge.aborted import look_at_table
from tidegate.hive_bridge.settings import BridgeSettings
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import QueueEntry, Table, Transactions
from tidegate.storage import Storage

ABORTED = "delta_0000004_0000004_0000"


def ids(last: int, aborted: str) -> ValidWriteIds:
    return ValidWriteIds.parse(f"sales.t:{last}:{NOTHING_OPEN}::{aborted}")


@dataclass
class Metastore:
    """Has one table, and says of it what is valid now."""

    location: Path
    valid: ValidWriteIds
    queue: tuple[QueueEntry, ...] = ()

    def table(self, database: str, name: str) -> Table:
        return Table(database, name, str(self.location), {"transactional": "true"})

    def partitions(self, database: str, name: str) -> list[Table]:
        del database, name
        return []

    def transactions(self) -> Transactions:
        return Transactions(10, {8: 0}, frozenset({7}))

    def compactions(self, database: str, name: str) -> tuple[QueueEntry, ...]:
        del database, name
        return self.queue

    def write_ids(self, database: str, name: str, transactions: object) -> ValidWriteIds:
        del database, name, transactions
        return self.valid


def look(
    metastore: Metastore, before: ValidWriteIds
) -> tuple[list[WritesAborted], list[str]] | None:
    client = cast("MetastoreClient", metastore)
    return look_at_table("lake", before, client, Storage())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return build(tmp_path / "t", {ABORTED: 10, "delta_0000005_0000005_0000": 10})


def test_the_event_has_the_content_that_the_cleaner_will_find(table: Path) -> None:
    before = ids(4, "4")
    found = look(Metastore(table, ids(9, "4")), before)
    assert found is not None
    [event], _ = found
    assert event.table == "lake.sales.t"
    listed = read_acid_directories(Storage(), str(table), ThreadMap(1)) or ()
    assert event.content == content_of(
        directory for directory in listed if directory.name == ABORTED
    )


def test_an_object_stores_markers_hinder_nothing(table: Path) -> None:
    for name in (ABORTED, "delta_0000005_0000005_0000", "base_0000003_v0000009"):
        (table / f"{name}_$folder$").touch()
    found = look(Metastore(table, ids(9, "4")), ids(4, "4"))
    assert found is not None
    events, staying = found
    assert (len(events), staying) == (1, [])


@pytest.mark.parametrize(
    ("state", "txn", "is_forgotten"),
    [
        pytest.param("working", None, False, id="a Worker has just taken it"),
        pytest.param("failed", 8, False, id="it was open when the walk began"),
        pytest.param("failed", 11, False, id="it began during the walk"),
        pytest.param("ready for cleaning", 11, False, id="perhaps after another one died"),
        pytest.param("succeeded", 6, True, id="it had committed"),
        pytest.param("failed", 7, True, id="it had aborted: the walk saw its directory"),
        pytest.param("initiated", None, True, id="it waits"),
    ],
)
def test_no_abort_is_forgotten_while_a_compaction_may_leave_a_directory(
    state: str, txn: int | None, tmp_path: Path, *, is_forgotten: bool
) -> None:
    """The Metastore would forget its abort too: readers would see what it wrote after the walk."""
    table = build(tmp_path / "t", {"delta_0000005_0000005_0000": 10})
    entry = QueueEntry(1, "sales", "t", None, None, state, 4, txn)
    found = look(Metastore(table, ids(9, "4"), (entry,)), ids(4, "4"))
    assert (found is not None) == is_forgotten


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(ids(9, ""), id="nothing aborted in the new one"),
        pytest.param(ids(9, "2,4"), id="others aborted too"),
        pytest.param(ids(3, ""), id="it has fewer writes"),
    ],
)
def test_a_table_that_was_created_again_during_the_walk_is_left_alone(
    now: ValidWriteIds, table: Path
) -> None:
    assert look(Metastore(table, now), ids(4, "4")) is None


class Listed(Metastore):
    """A Metastore whose tables a sweep lists; `looked` has what it looked for in the table."""

    def __post_init__(self) -> None:
        self.looked: list[str] = []

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tables(self) -> tuple[tuple[str, str], ...]:
        return (("sales", "t"),)

    def all_write_ids(self, tables: object, transactions: object) -> tuple[ValidWriteIds, ...]:
        del tables, transactions
        return (self.valid,)

    def table(self, database: str, name: str) -> Table:
        self.looked.append(str(self.valid.aborted))
        return Table(database, name, str(self.location), {})


def test_a_new_table_of_a_name_has_a_grace_time_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    metastore = Listed(tmp_path, ids(50, "50"))
    monkeypatch.setattr(aborted_sweep, "MetastoreClient", metastore)
    settings = BridgeSettings(uri="thrift://127.0.0.1:1", aborted_grace_ms=100_000)
    sweep = aborted_sweep.AbortedSweep(settings, Storage(), lambda: now)

    def looked(at: float, valid: ValidWriteIds) -> list[str]:
        nonlocal now
        now, metastore.valid, metastore.looked = at, valid, []
        assert sweep._sweep() == []
        return metastore.looked

    assert looked(0, ids(50, "50")) == []
    assert looked(100, ids(50, "50")) == ["50"]
    assert looked(100, ids(2, "2")) == []
    assert looked(200, ids(2, "2")) == ["2"]
    sweep.close()
