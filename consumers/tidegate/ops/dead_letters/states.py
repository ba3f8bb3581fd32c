"""The resolutions of dead letters, read from the outcomes only as far back as needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from tidegate.errors import FormatError
from tidegate.events import DeadLetterDiscarded, DeadLetterRedriven
from tidegate.events.wire import Wire
from tidegate.runtime.bus import Partition, Record

OPEN: Final = "open"
MARGIN_MS: Final = 60 * 60 * 1000
"""The most that two brokers' clocks may differ, and the shortest span that is read."""
_RESOLUTIONS: Final = (DeadLetterRedriven, DeadLetterDiscarded)


class Topics(Protocol):
    """Requests to the broker (see `tidegate.runtime.kafka.topic_reader`)."""

    def spans(self, topic: str) -> Mapping[Partition, range]:
        """The offsets of each partition."""
        ...

    def offsets_at(self, topic: str, moment: datetime) -> Mapping[Partition, int]:
        """The first offset of each partition at or after a time."""
        ...

    def read(self, spans: Mapping[Partition, range]) -> Iterable[Record]:
        """The records at these offsets."""
        ...


@dataclass(slots=True)
class Resolutions:
    """The resolutions by dead letter id; the latest one per dead letter counts.

    A resolution is younger than its dead letter. So only outcomes younger than the requested ones
    are read, each once: the newest dead letters cost little, even with many outcomes.
    """

    topics: Topics
    topic: str
    wire: Wire
    _before: dict[Partition, int] | None = None
    """The offset from which each partition was read."""
    _since_ms: int = 0
    _step_ms: int = MARGIN_MS
    _latest: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    def state_of(self, dead_letter_id: str, appended_ms: int) -> str:
        """The state of a dead letter: open, redriven or discarded.

        Args:
            dead_letter_id: The dead letter's id.
            appended_ms: When the broker appended it, in milliseconds since the epoch.
        """
        if self._before is None or appended_ms - MARGIN_MS < self._since_ms:
            self._read_back_to(appended_ms - MARGIN_MS)
        _, state = self._latest.get(dead_letter_id, (0, OPEN))
        return state

    def _read_back_to(self, since_ms: int) -> None:
        # every step reads twice as far back, so that thousands of dead letters cost few requests
        self._since_ms = max(0, since_ms - self._step_ms)
        self._step_ms *= 2
        if self._before is None:
            self._before = {part: span.stop for part, span in self.topics.spans(self.topic).items()}
        at = datetime.fromtimestamp(self._since_ms / 1000, UTC)
        starts = self.topics.offsets_at(self.topic, at)
        before = self._before
        unread = {part: range(min(starts[part], stop), stop) for part, stop in before.items()}
        for record in self.topics.read(unread):
            self._record_resolution(record)
        self._before = {part: span.start for part, span in unread.items()}

    def _record_resolution(self, record: Record) -> None:
        try:
            if self.wire.kind(record.value, record.headers) not in _RESOLUTIONS:
                return
            event = self.wire.deserialize(record.key, record.value, record.headers)
        except FormatError:
            return
        state = "redriven" if isinstance(event, DeadLetterRedriven) else "discarded"
        resolution = (record.timestamp_ms, state)
        dead_letter_id = event.caused_by or ""
        known = self._latest.get(dead_letter_id, resolution)
        self._latest[dead_letter_id] = max(known, resolution)
