"""Who holds which table, and what waits in quarantine, by the coordinator's rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.coordinator.holds import holds
from tidegate.coordinator.quarantines import quarantines
from tidegate.coordinator.store import Store
from tidegate.coordinator.subject import moment


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table whose cleaning is on hold. `since` is the broker's time."""

    table: str
    requested_by: str
    reason: str
    since: datetime
    event_id: str
    deferred: int
    """Cleanings that were released before the hold and wait for its end."""

    def __str__(self) -> str:
        """The table, the holder, the time and the reason."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.table}  held by {self.requested_by} since {since}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"since": self.since.isoformat(timespec="milliseconds")}


@dataclass(frozen=True, slots=True)
class QuarantinedDirectories:
    """The directories of one cleaning in quarantine. `until` is the broker's time."""

    table: str
    partition: str | None
    cleaning: str
    directories: int
    bytes: int
    until: datetime

    def __str__(self) -> str:
        """The table, the number of directories, the end of the quarantine and the cleaning."""
        where = f"/{self.partition}" if self.partition else ""
        until = f"{self.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        count = "1 directory" if self.directories == 1 else f"{self.directories} directories"
        return f"{self.table}{where}  {count} in quarantine until {until}, of {self.cleaning}"

    def as_json(self) -> dict[str, Any]:
        """Everything about it, for scripts."""
        return asdict(self) | {"until": self.until.isoformat(timespec="milliseconds")}


def holds_and_quarantines(rows: Store) -> Iterator[HeldTable | QuarantinedDirectories]:
    """The holds and the quarantines of every table, in no particular order."""
    for table, hold, deferred in holds(rows):
        since = moment(hold.since)
        yield HeldTable(table, hold.requested_by, hold.reason, since, hold.event_id, deferred)
    for found in quarantines(rows):
        if not found.undone:
            yield QuarantinedDirectories(
                found.table,
                found.partition,
                found.cleaning,
                found.directories,
                found.bytes,
                moment(found.due),
            )
