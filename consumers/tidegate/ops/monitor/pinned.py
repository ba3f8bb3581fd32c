"""The bytes that savepoints pin, by pattern of tables, from the outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from tidegate.events import Event, SavepointRemoved, SavepointsChecked
from tidegate.monitoring import catalog
from tidegate.monitoring.metrics import Metrics


@dataclass(frozen=True, slots=True)
class _Pinned:
    """One table's pinned bytes and oldest savepoint, as last measured."""

    size: int
    oldest: datetime | None


@dataclass(slots=True)
class PinnedFiles:
    """The last measurement of each table that was seen."""

    patterns: Sequence[str]
    """From `[monitoring] tables`; a table counts for the first pattern that matches."""
    _tables: dict[str, _Pinned] = field(default_factory=dict[str, _Pinned])

    def take(self, event: Event) -> None:
        """Take the next outcome."""
        if isinstance(event, SavepointsChecked) and event.pinned_bytes is not None:
            self._tables[event.table] = _Pinned(event.pinned_bytes, event.oldest_at)
        elif isinstance(event, SavepointRemoved) and event.savepoints_left == 0:
            self._tables.pop(event.table, None)

    def export(self, metrics: Metrics) -> None:
        """Set the gauges; a pattern without a measured table has no value."""
        sizes, oldest = dict[str, int](), dict[str, float]()
        for table, pinned in self._tables.items():
            pattern = next(
                (pattern for pattern in self.patterns if fnmatchcase(table, pattern)), None
            )
            if pattern is None:
                continue
            sizes[pattern] = sizes.get(pattern, 0) + pinned.size
            if pinned.oldest is not None:
                since = pinned.oldest.timestamp()
                oldest[pattern] = min(since, oldest.get(pattern, since))
        for gauge in (catalog.PINNED, catalog.PINNED_SINCE):
            metrics.forget(gauge)
        for pattern, size in sizes.items():
            metrics.set(catalog.PINNED, size, pattern)
        for pattern, since in oldest.items():
            metrics.set(catalog.PINNED_SINCE, since, pattern)
