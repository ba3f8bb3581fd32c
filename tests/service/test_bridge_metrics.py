"""What a Metastore bridge exports."""

from __future__ import annotations

from tidegate.hive_bridge.observer import Observer
from tidegate.monitoring.catalog import BRIDGE_METRICS
from tidegate.monitoring.observed import ProcessMonitoring
from tidegate.service.bridge_assembly import _BridgeMetrics


def test_calls_looks_and_marks_are_in_the_metrics_of_the_process() -> None:
    monitoring = ProcessMonitoring(more=BRIDGE_METRICS)
    observer: Observer = _BridgeMetrics(monitoring.metrics)
    service = {"service": "metastore-bridge"}

    def value(name: str, **labels: str) -> float | None:
        return monitoring.metrics.registry.get_sample_value(name, service | labels)

    assert value("tidegate_bridge_active") == 0
    for name in ("show_locks", "show_locks", "mark_cleaned"):
        observer.called(name)
    observer.looked(0.2, 7, 3)
    observer.marked(0)
    observer.marked(2)
    observer.is_active(active=True)

    assert value("tidegate_metastore_calls_total", call="show_locks") == 2
    assert value("tidegate_metastore_poll_seconds_count") == 1
    assert value("tidegate_metastore_waiting_holds") == 7
    assert value("tidegate_metastore_unmarked_compactions") == 3
    assert value("tidegate_metastore_marked_cleaned_total") == 2
    assert value("tidegate_bridge_active") == 1
    assert (value("tidegate_metastore_last_poll_timestamp_seconds") or 0) > 1e9


def test_every_metric_of_a_bridge_has_a_name_of_its_kind() -> None:
    for metric in BRIDGE_METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
