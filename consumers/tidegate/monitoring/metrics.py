"""The collectors of one process, made from the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from tidegate.monitoring import catalog
from tidegate.monitoring.catalog import Metric


class Metrics:
    """The metrics of a process, on a registry of their own; safe to use from any thread."""

    def __init__(self, metrics: Sequence[Metric] = catalog.PROCESS_METRICS) -> None:
        """Register these metrics, and those of Python and the process."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series of every counter
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._families = {metric: _family(metric, self.registry) for metric in metrics}
        if catalog.BUILD_INFO in metrics:
            self.set(catalog.BUILD_INFO, 1, version("tidegate"))

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter."""
        self._of(metric, labels).inc(amount)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._of(metric, labels).set(value)

    def compute(self, metric: Metric, value: Callable[[], float], *labels: str) -> None:
        """Compute a gauge at each scrape."""
        self._of(metric, labels).set_function(value)

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram; a negative one, of two clocks that differ, as zero."""
        self._of(metric, labels).observe(max(0.0, seconds))

    def forget(self, metric: Metric) -> None:
        """Remove all time series of a gauge, before those that are still there are set."""
        self._families[metric].clear()

    def _of(self, metric: Metric, labels: Sequence[str]) -> Any:  # noqa: ANN401 - of its kind
        family = self._families[metric]
        return family.labels(*labels) if metric.labels else family


def _family(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    fields = metric.name, metric.help, metric.labels
    if metric.kind == "histogram":
        return Histogram(*fields, buckets=metric.buckets, registry=registry)
    return (Counter if metric.kind == "counter" else Gauge)(*fields, registry=registry)
