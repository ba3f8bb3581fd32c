"""The judge of metadata tables goes red on a wrong one, where Hudi's own validation does not."""

from __future__ import annotations

import shutil

import pytest

from support.hudi_records import RealHudi
from support.indexed_tables import check_listing, listed, on_disk
from support.real_hudi import RealTable, rows


def test_a_file_that_is_gone_and_one_that_is_not_listed_are_noticed(hudi: RealHudi) -> None:
    table = RealTable(hudi, hudi.root / "lake/orders", 9, metadata_table=True)
    table.write(rows(range(4), "first", 1), "insert")
    older = table.copy(hudi.root / "older/orders")
    table.write([(0, "p0", 2, "second")])
    check_listing(table)
    gone = table.copy(hudi.root / "gone/orders")
    (victim, *_) = sorted(gone.path.glob("p0/*.parquet"))
    victim.unlink()
    stale = table.copy(hudi.root / "stale/orders")
    shutil.rmtree(stale.path / ".hoodie/metadata")
    shutil.copytree(older.path / ".hoodie/metadata", stale.path / ".hoodie/metadata")

    for wrong in (gone, stale):
        with pytest.raises(AssertionError):
            check_listing(wrong)

    assert listed(gone)["p0"] - on_disk(gone)["p0"] == {victim.name}
    assert on_disk(stale)["p0"] - listed(stale)["p0"]
