"""What savepoints pin, as `tidegate monitor` exports it."""

from __future__ import annotations

from datetime import timedelta

from support.samples import NOON, savepoint_request
from tidegate.events import SavepointRemoved, SavepointsChecked
from tidegate.monitoring import catalog
from tidegate.monitoring.metrics import Metrics
from tidegate.ops.monitor import _PinnedFiles


def measured(table: str, size: int, hours: int) -> SavepointsChecked:
    return SavepointsChecked.about(
        savepoint_request(1, table),
        source="savepoint-writer",
        occurred_at=NOON,
        savepoints=1,
        duration_ms=1,
        pinned_files=1,
        pinned_bytes=size,
        oldest_at=NOON - timedelta(hours=hours),
    )


def test_the_last_measurement_of_each_table_counts_by_pattern() -> None:
    metrics, pinned = Metrics(catalog.DEPLOYMENT_METRICS), _PinnedFiles(("lake.sales.*", "*"))

    def value(name: str, tables: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"tables": tables})

    for event in (
        measured("lake.sales.orders", 70, 9),
        measured("lake.sales.orders", 50, 3),
        measured("lake.sales.items", 5, 4),
        measured("lake.hr.staff", 7, 1),
    ):
        pinned.take(event)
    pinned.export(metrics)

    assert value("tidegate_savepoint_pinned_bytes", "lake.sales.*") == 55
    assert value("tidegate_savepoint_pinned_bytes", "*") == 7
    since = value("tidegate_oldest_savepoint_timestamp_seconds", "lake.sales.*")
    assert since == (NOON - timedelta(hours=4)).timestamp()

    removed = SavepointRemoved.about(
        savepoint_request(1, "lake.hr.staff"),
        source="savepoint-writer",
        occurred_at=NOON,
        instant="20261121120000001",
        savepoints_left=0,
        duration_ms=1,
    )
    pinned.take(removed)
    pinned.export(metrics)
    assert value("tidegate_savepoint_pinned_bytes", "*") is None
