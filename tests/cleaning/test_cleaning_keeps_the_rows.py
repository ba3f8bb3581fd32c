from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyorc
import pytest

from support.acid import names_in, release
from support.acid_orc import AcidTable, _Key
from tidegate.cleaning.executor import Cleaner
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import DirectoriesCleaned
from tidegate.hive.write_ids import IdRanges, ValidWriteIds
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

COLUMNS = {"id": "bigint", "city": "string"}
ANA, BEN, CLEO, DAN = (1, "Porto"), (2, "Ghent"), (3, "Oslo"), (4, "Turin")


def ids(mark: int, aborted: tuple[int, ...] = ()) -> ValidWriteIds:
    return ValidWriteIds("default.table_txn_001", mark, aborted=IdRanges.of(*aborted))


@pytest.fixture
def table(tmp_path: Path) -> AcidTable:
    (tmp_path / "t").mkdir()
    return AcidTable(tmp_path / "t", COLUMNS)


@pytest.fixture
def cleaner(tmp_path: Path) -> Cleaner:
    roots = WarehouseRoots.of(str(tmp_path))
    return Cleaner(Warehouse(roots), ThreadMap(), lambda: datetime.now(UTC))


def fill(table: AcidTable) -> None:
    table.insert(1, [ANA, BEN])
    table.insert(2, [CLEO])
    table.insert(3, [DAN])
    (ben,) = (key for key, row in table.read(ids(3)).items() if row == BEN)
    table.delete(4, [ben])


def rows(table: AcidTable, snapshot: ValidWriteIds) -> list[tuple[object, ...]]:
    return list(table.read(snapshot).values())


def test_a_snapshot_reads_the_rows_of_its_write_ids(table: AcidTable) -> None:
    fill(table)
    assert rows(table, ids(1)) == [ANA, BEN]
    assert rows(table, ids(3)) == [ANA, BEN, CLEO, DAN]
    assert rows(table, ids(4)) == [ANA, CLEO, DAN]
    assert rows(table, ids(4, aborted=(2,))) == [ANA, DAN]


def test_after_a_minor_vacuum_and_its_cleaning_the_rows_are_the_same(
    table: AcidTable, cleaner: Cleaner
) -> None:
    fill(table)
    made = table.compact_minor(1, 4, ids(4))
    assert made == ("delta_0000001_0000004", "delete_delta_0000001_0000004")
    before = table.read(ids(4))
    command = release(
        str(table.location), directories=made, max_write_id=4, valid_write_ids=str(ids(4))
    )
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert len(cleaned.directories) == 4
    assert names_in(table.location) == sorted(made)
    assert table.read(ids(4)) == before
    assert list(before.values()) == [ANA, CLEO, DAN]


def test_after_a_major_vacuum_and_its_cleaning_the_rows_are_the_same(
    table: AcidTable, cleaner: Cleaner
) -> None:
    fill(table)
    table.compact_minor(1, 3, ids(3), txn=40)
    before = table.read(ids(4))
    made = table.compact_major(ids(4), txn=41)
    assert made == "base_0000004_v0000041"
    table.insert(5, [BEN])
    command = release(
        str(table.location),
        kind="major",
        directories=(made,),
        max_write_id=4,
        valid_write_ids=str(ids(4)),
    )
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert len(cleaned.directories) == 5
    assert names_in(table.location) == [made, "delta_0000005_0000005_0000"]
    assert table.read(ids(4)) == before
    assert rows(table, ids(5)) == [ANA, CLEO, DAN, BEN]


def test_a_reader_between_two_vacuums_keeps_its_rows_through_the_first_ones_cleaning(
    table: AcidTable, cleaner: Cleaner
) -> None:
    fill(table)
    first = table.compact_minor(1, 3, ids(3))
    between = table.read(ids(4))
    table.compact_minor(1, 4, ids(4))
    list(
        cleaner.execute(
            release(str(table.location), directories=first, valid_write_ids=str(ids(3)))
        )
    )
    for name in ("delta_0000001_0000003", "delete_delta_0000004_0000004_0000"):
        assert (table.location / name / "bucket_00000").exists()
    assert table.read(ids(4)) == between


def test_aborted_rows_are_left_out_by_a_compaction_and_cleaned_with_it(
    table: AcidTable, cleaner: Cleaner
) -> None:
    fill(table)
    snapshot = ids(4, aborted=(2,))
    made = table.compact_minor(1, 4, snapshot)
    command = release(
        str(table.location), directories=made, max_write_id=4, valid_write_ids=str(snapshot)
    )
    *_, cleaned = cleaner.execute(command)
    assert isinstance(cleaned, DirectoriesCleaned)
    assert "delta_0000002_0000002_0000" in cleaned.directories
    assert names_in(table.location) == sorted(made)
    assert rows(table, snapshot) == [ANA, DAN]


def test_a_file_says_to_hive_what_its_reader_looks_for(table: AcidTable) -> None:
    name = table.insert(1, [ANA, BEN])
    with (table.location / name / "bucket_00000").open("rb") as file:
        reader = pyorc.Reader(file)
        assert str(reader.schema) == (
            "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,"
            "currentTransaction:bigint,row:struct<id:bigint,city:string>>"
        )
        assert list(reader) == [(0, 1, 536870912, 0, 1, ANA), (0, 1, 536870912, 1, 1, BEN)]
        assert dict(reader.user_metadata) == {
            "hive.acid.version": b"2",
            "hive.acid.key.index": b"1,536870912,1;",
            "hive.acid.stats": b"2,0,0",
        }
    assert (table.location / name / "_orc_acid_version").read_text() == "2"


def test_a_statement_is_part_of_its_rows_keys(table: AcidTable) -> None:
    table.insert(1, [ANA], statement=0)
    table.insert(1, [BEN], statement=1)
    assert list(table.read(ids(1))) == [_Key(1, 536870912, 0), _Key(1, 536870913, 0)]
