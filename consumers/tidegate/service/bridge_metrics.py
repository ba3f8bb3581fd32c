"""The metrics of the Metastore bridge."""

from __future__ import annotations

import time

from tidegate.bridges.metastore import NAME
from tidegate.hive_bridge.observer import Observer
from tidegate.monitoring import catalog
from tidegate.monitoring.metrics import Metrics


class BridgeMetrics(Observer):
    """Counts in a process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        """Begin as a bridge on standby."""
        self._metrics = metrics
        metrics.set(catalog.BRIDGE_ACTIVE, 0, NAME)

    def called(self, name: str) -> None:
        """Count a call."""
        self._metrics.add(catalog.BRIDGE_CALLS, 1, NAME, name)

    def looked(self, seconds: float, holds: int, unmarked: int) -> None:
        """Record the seconds of a listing, and the numbers of waiting holds and vacuums."""
        self._metrics.observe(catalog.BRIDGE_POLL, seconds, NAME)
        self._metrics.set(catalog.BRIDGE_LAST_POLL, time.time(), NAME)
        self._metrics.set(catalog.BRIDGE_HOLDS, holds, NAME)
        self._metrics.set(catalog.BRIDGE_VACUUMS, unmarked, NAME)

    def marked(self, count: int) -> None:
        """Count marked compactions."""
        self._metrics.add(catalog.BRIDGE_MARKED, count, NAME)

    def refused(self) -> None:
        """Count a table, compaction or event that the bridge can't handle."""
        self._metrics.add(catalog.BRIDGE_REFUSED, 1, NAME)

    def is_active(self, *, active: bool) -> None:
        """Record whether this is the active bridge."""
        self._metrics.set(catalog.BRIDGE_ACTIVE, int(active), NAME)
