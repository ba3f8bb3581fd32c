"""The rest of a compaction is searched for where its table is, as the store lists it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from support.acid import build
from tidegate.events import VacuumKind
from tidegate.hive.write_ids import NOTHING_OPEN, ValidWriteIds
from tidegate.hive_bridge.describing import NotYet
from tidegate.hive_bridge.marking import settle
from tidegate.hive_bridge.products import VacuumFields
from tidegate.hive_metastore import MetastoreClient
from tidegate.hive_metastore.values import READY_FOR_CLEANING, QueueEntry, Table, Transactions
from tidegate.storage import Storage

MADE, OLD = "base_0000004_v0000009", "delta_0000003_0000003_0000"
IDS = f"sales.t:4:{NOTHING_OPEN}::"
QUEUED = QueueEntry(7, "sales", "t", None, VacuumKind.MAJOR, READY_FOR_CLEANING, 4, 9, 9)


@dataclass
class Metastore:
    """Has one table with one compaction in its queue."""

    location: Path
    marked: list[QueueEntry] = field(default_factory=list)

    def table(self, database: str, name: str) -> Table:
        return Table(database, name, str(self.location), {"transactional": "true"})

    def transactions(self) -> Transactions:
        return Transactions(10)

    def write_ids(self, database: str, name: str, transactions: object) -> ValidWriteIds:
        del database, name, transactions
        return ValidWriteIds.parse(IDS)

    def queued(self, compaction_id: int) -> QueueEntry | None:
        return QUEUED if compaction_id == QUEUED.compaction_id else None

    def mark_cleaned(self, compaction: QueueEntry) -> None:
        self.marked.append(compaction)


def settled(table: Path) -> list[QueueEntry]:
    metastore = Metastore(table)
    vacuum = VacuumFields(str(table), (MADE,), 1, 4, IDS, VacuumKind.MAJOR, 9)
    settle(QUEUED, vacuum, cast("MetastoreClient", metastore), Storage())
    return metastore.marked


def test_an_object_stores_markers_of_directories_hinder_no_mark(tmp_path: Path) -> None:
    """The marker of a directory that is gone may be left, and the product has one of its own."""
    table = build(tmp_path / "t", {MADE: 10})
    for name in (MADE, OLD):
        (table / f"{name}_$folder$").touch()
    assert settled(table) == [QUEUED]


def test_what_is_not_named_as_an_acid_directory_hinders_no_mark(tmp_path: Path) -> None:
    table = build(tmp_path / "t", {MADE: 10})
    for name in ("_tmp", "000000_0", ".hive-staging"):
        (table / name).mkdir()
    assert settled(table) == [QUEUED]


def test_a_directory_that_is_a_link_is_left_too(tmp_path: Path) -> None:
    table = build(tmp_path / "t", {MADE: 10})
    (table / OLD).symlink_to(build(tmp_path / "elsewhere", {OLD: 10}) / OLD)
    with pytest.raises(NotYet, match=OLD):
        settled(table)
