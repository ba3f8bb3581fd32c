"""The collectors of one process, made from the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

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

F = TypeVar("F", Counter, Gauge, Histogram)


class Metrics:
    """The metrics of a process, on a registry of their own; safe to use from any thread."""

    def __init__(self, metrics: Sequence[Metric] = catalog.PROCESS_METRICS) -> None:
        """Register these metrics, and those of Python and the process."""
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series of every counter
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._counters: dict[Metric, Counter] = {}
        self._gauges: dict[Metric, Gauge] = {}
        self._histograms: dict[Metric, Histogram] = {}
        for metric in metrics:
            self._register(metric)
        if catalog.BUILD_INFO in self._gauges:
            self.set(catalog.BUILD_INFO, 1, version("tidegate"))

    def _register(self, metric: Metric) -> None:
        name, text, labels = metric.name, metric.help, metric.labels
        if metric.kind == "counter":
            self._counters[metric] = Counter(name, text, labels, registry=self.registry)
        elif metric.kind == "gauge":
            self._gauges[metric] = Gauge(name, text, labels, registry=self.registry)
        else:
            buckets = metric.buckets
            made = Histogram(name, text, labels, buckets=buckets, registry=self.registry)
            self._histograms[metric] = made

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter."""
        self._of(self._counters, metric, labels).inc(amount)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._of(self._gauges, metric, labels).set(value)

    def compute(self, metric: Metric, value: Callable[[], float], *labels: str) -> None:
        """Compute a gauge at each scrape."""
        self._of(self._gauges, metric, labels).set_function(value)

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram; a negative one, of two clocks that differ, as zero."""
        self._of(self._histograms, metric, labels).observe(max(0.0, seconds))

    @staticmethod
    def _of(families: Mapping[Metric, F], metric: Metric, labels: Sequence[str]) -> F:
        family = families[metric]
        return family.labels(*labels) if metric.labels else family

    def forget(self, metric: Metric) -> None:
        """Remove all time series of a gauge, before those that are still there are set."""
        self._gauges[metric].clear()
