"""The commits of real Hudi, as the bridge publishes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.real_hudi import RealTable, rows
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import WatchedTable
from tidegate.storage import Storage

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow]


@pytest.mark.parametrize("version", [pytest.param(6, marks=pytest.mark.full), 9])
def test_a_commit_of_hudi_is_the_event_of_its_timeline(
    live_hudi: RealHudi, tmp_path: Path, version: int
) -> None:
    table = RealTable(live_hudi, tmp_path / "sales" / "orders", version, metadata_table=False)
    settings = HudiBridgeSettings(tables=(f"{tmp_path}/sales/*",), catalog="hudi")
    watched = WatchedTable(table.location, settings)
    table.write(rows(range(4), "one", 1))
    [event] = watched.look(Storage())
    assert (event.table, event.operation) == ("hudi.sales.orders", "upsert")
    assert (event.files_written, event.records_written) == (2, 4)
    assert event.bytes_written == sum(
        file.stat().st_size for file in Path(table.location).rglob("*.parquet")
    )
    watched.published.take(event)
    table.write(rows(range(2), "two", 2), operation="insert_overwrite")
    [second] = watched.look(Storage())
    assert (second.action, second.operation) == ("replacecommit", "insert_overwrite")
    assert not second.reconciled
