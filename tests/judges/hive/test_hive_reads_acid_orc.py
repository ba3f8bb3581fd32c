from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest

from support.acid import release
from tidegate.cleaning import Cleaner
from tidegate.demo.acid_orc import AcidTable
from tidegate.events import DirectoriesCleaned
from tidegate.fanout import InPlace
from tidegate.hive import ValidWriteIds
from tidegate.warehouse import Warehouse, WarehouseRoots

pytestmark = [pytest.mark.judge]

COLUMNS = {"id": "bigint", "city": "string"}
ANA, BEN, CLEO, DAN = (1, "Porto"), (2, "Ghent"), (3, "Oslo"), (4, "Turin")


class Judge(Protocol):
    def rows(
        self, table: Path, write_ids: ValidWriteIds, columns: Mapping[str, str]
    ) -> list[str]: ...


def ids(mark: int, aborted: tuple[int, ...] = ()) -> ValidWriteIds:
    return ValidWriteIds("default.table_txn_001", mark, aborted=aborted)


@pytest.fixture
def table(tmp_path: Path) -> AcidTable:
    """Three inserts, and a delete of one row."""
    (tmp_path / "t").mkdir()
    table = AcidTable(tmp_path / "t", COLUMNS)
    table.insert(1, [ANA, BEN])
    table.insert(2, [CLEO])
    table.insert(3, [DAN])
    table.delete(4, [key for key, row in table.read(ids(3)).items() if row == BEN])
    return table


def test_hive_reads_our_files_as_we_do(table: AcidTable, hive: Judge) -> None:
    read = {
        snapshot: hive.rows(table.location, snapshot, COLUMNS)
        for snapshot in (ids(1), ids(3), ids(4), ids(4, aborted=(2,)))
    }
    assert list(read.values()) == [
        ["{1, Porto}", "{2, Ghent}"],
        ["{1, Porto}", "{2, Ghent}", "{3, Oslo}", "{4, Turin}"],
        ["{1, Porto}", "{3, Oslo}", "{4, Turin}"],
        ["{1, Porto}", "{4, Turin}"],
    ]
    for snapshot, rows in read.items():
        assert rows == [f"{{{key}, {city}}}" for key, city in table.read(snapshot).values()]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_hive_reads_the_same_rows_after_a_vacuum_and_after_its_cleaning(
    kind: str, table: AcidTable, hive: Judge, tmp_path: Path
) -> None:
    before = hive.rows(table.location, ids(4), COLUMNS)
    made = table.compact_minor(1, 4, ids(4)) if kind == "minor" else (table.compact_major(ids(4)),)
    assert hive.rows(table.location, ids(4), COLUMNS) == before
    roots = WarehouseRoots.of(str(tmp_path))
    cleaner = Cleaner(Warehouse(roots), InPlace(), lambda: datetime.now(UTC))
    command = release(
        str(table.location),
        kind=kind,
        directories=made,
        max_write_id=4,
        valid_write_ids=str(ids(4)),
    )
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert len(cleaned.directories) == 4
    assert hive.rows(table.location, ids(4), COLUMNS) == before
    assert before == ["{1, Porto}", "{3, Oslo}", "{4, Turin}"]
