from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest

from support.acid import names_in, release
from support.acid_orc import AcidTable
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import CleaningRefused, CleaningReleased, DirectoriesCleaned
from tidegate.hive.write_ids import IdRanges, ValidTxns, ValidWriteIds
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

pytestmark = [pytest.mark.judge]

COLUMNS = {"id": "bigint", "city": "string"}
COMPACTED = ValidTxns(77, 78)
BASE = "base_0000005_v0000077"
ANA, BEN, CLEO, DAN = (1, "Porto"), (2, "Ghent"), (3, "Oslo"), (4, "Turin")


class Judge(Protocol):
    def rows(
        self,
        table: Path,
        write_ids: ValidWriteIds,
        columns: Mapping[str, str],
        txns: ValidTxns = ...,
    ) -> list[str]: ...

    def compact(
        self, table: Path, write_ids: ValidWriteIds, columns: Mapping[str, str], txns: ValidTxns
    ) -> None: ...


def ids(mark: int, aborted: tuple[int, ...] = ()) -> ValidWriteIds:
    return ValidWriteIds("default.table_txn_001", mark, aborted=IdRanges.of(*aborted))


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
    cleaner = Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC))
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


def major(table: AcidTable) -> CleaningReleased:
    fields = {"kind": "major", "directories": (BASE,), "max_write_id": 5}
    return release(str(table.location), **fields, valid_write_ids=str(ids(5)))


@pytest.fixture
def emptied(table: AcidTable, hive: Judge) -> AcidTable:
    """All rows deleted, and the table compacted by Hive itself."""
    table.delete(5, list(table.read(ids(4))))
    hive.compact(table.location, ids(5), COLUMNS, COMPACTED)
    return table


def test_hive_leaves_a_base_without_a_bucket_where_all_rows_were_deleted_and_it_is_cleaned(
    emptied: AcidTable, hive: Judge, tmp_path: Path
) -> None:
    assert [name for name in names_in(emptied.location / BASE) if name[0] != "."] == [
        "_orc_acid_version"
    ]
    roots = WarehouseRoots.of(str(tmp_path))
    cleaner = Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC))
    *_, cleaned = cleaner.execute(major(emptied))
    assert isinstance(cleaned, DirectoriesCleaned)
    assert len(cleaned.directories) == 5
    assert names_in(emptied.location) == [BASE]
    assert hive.rows(emptied.location, ids(5), COLUMNS, COMPACTED) == []


def test_hive_does_not_see_a_base_without_any_file_so_that_is_refused(
    emptied: AcidTable, hive: Judge, tmp_path: Path
) -> None:
    shutil.rmtree(emptied.location / BASE)
    (emptied.location / BASE).mkdir()
    roots = WarehouseRoots.of(str(tmp_path))
    cleaner = Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC))
    (refused,) = cleaner.execute(major(emptied))
    assert isinstance(refused, CleaningRefused)
    assert refused.reason == "products-incomplete"
    shutil.rmtree(emptied.location / "delete_delta_0000005_0000005_0000")
    back = hive.rows(emptied.location, ids(5), COLUMNS, COMPACTED)
    assert back == ["{1, Porto}", "{3, Oslo}", "{4, Turin}"]


def test_hive_compacts_an_insert_overwrite_of_nothing_to_an_empty_base_that_is_cleaned(
    table: AcidTable, hive: Judge, tmp_path: Path
) -> None:
    overwrite = table.location / "base_0000005"
    overwrite.mkdir()
    (overwrite / "_orc_acid_version").write_text("2")
    (table.location / table.insert(6, []) / "bucket_00000").unlink()
    assert hive.rows(table.location, ids(6), COLUMNS, COMPACTED) == []
    hive.compact(table.location, ids(6), COLUMNS, COMPACTED)
    made = "base_0000006_v0000077"
    assert "bucket_00000" not in names_in(table.location / made)
    shutil.rmtree(table.location / "delete_delta_0000004_0000004_0000")
    roots = WarehouseRoots.of(str(tmp_path))
    cleaner = Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC))
    command = release(
        str(table.location),
        kind="major",
        directories=(made,),
        max_write_id=6,
        valid_write_ids=str(ids(6)),
    )
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned), cleaned
    assert names_in(table.location) == [made]
    assert hive.rows(table.location, ids(6), COLUMNS, COMPACTED) == []
