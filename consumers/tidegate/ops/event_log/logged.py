"""A record of a topic with the event in it, if it can be decoded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.events import Event
from tidegate.runtime.bus import Record


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A record with its event, or the reason why it can't be decoded."""

    record: Record
    event: Event | None
    problem: str = ""

    @property
    def at(self) -> datetime:
        """When the broker appended it: the only clock that all events share."""
        return datetime.fromtimestamp(self.record.timestamp_ms / 1000, UTC)

    @property
    def place(self) -> str:
        """Its location, as topic/partition/offset."""
        where = self.record.partition
        return f"{where.topic}/{where.number}/{self.record.offset}"
