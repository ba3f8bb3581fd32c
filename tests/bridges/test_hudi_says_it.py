"""What real Hudi says of its commits: by its HTTP callback, and on the timeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hudi_records import RealHudi
from support.real_hudi import RealTable, rows
from support.waiting import wait_for
from tidegate.bridges.callbacks import http_callbacks
from tidegate.hudi_bridge.settings import HudiBridgeSettings
from tidegate.hudi_bridge.watched import WatchedTable
from tidegate.storage import Storage

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow]


@pytest.mark.parametrize("version", [pytest.param(6, marks=pytest.mark.full), 9])
def test_a_callback_of_hudi_names_the_table_whose_timeline_has_the_commit(
    live_hudi: RealHudi, tmp_path: Path, version: int
) -> None:
    received: list[str] = []

    def consume(location: str) -> bool:
        received.append(location)
        return True

    table = RealTable(live_hudi, tmp_path / "sales" / "orders", version, metadata_table=False)
    settings = HudiBridgeSettings(tables=(f"{tmp_path}/sales/*",), catalog="hudi")
    watched = WatchedTable(table.location, settings)
    with http_callbacks("127.0.0.1", 0, consume) as port:
        callback = {
            "hoodie.write.commit.callback.on": "true",
            "hoodie.write.commit.callback.http.url": f"http://127.0.0.1:{port}/hudi",
        }
        table.write(rows(range(4), "one", 1), more=callback)
        [said] = wait_for("the callback", lambda: received)
    [event] = watched.look(Storage())
    assert said.removeprefix("file:").rstrip("/").endswith("/sales/orders")
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
