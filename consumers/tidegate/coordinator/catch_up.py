"""After an assignment, the backlogs of some inputs are read before those of the others, in order.

Rows of the later inputs need then not outlast a backlog, and an event of a later input is decided
with all that the earlier ones had to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidegate.runtime.bus import Offsets, Partition, Record, Subscription, Watermarks


class CatchUp:
    """Which partitions are paused until earlier inputs of the same number have caught up.

    Order of calls: `assigned`, then `polled` after every poll.
    """

    def __init__(self, topics: Sequence[str], subscription: Subscription) -> None:
        """Take the topics whose backlogs come first, in order."""
        self._order = {topic: place for place, topic in enumerate(topics)}
        self._subscription = subscription
        self._ends: dict[Partition, int] = {}
        """By partition whose backlog comes first, where that ends."""
        self._paused: set[Partition] = set()

    def first(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those whose backlog comes first."""
        return [part for part in partitions if part.topic in self._order]

    def assigned(self, starts: Offsets, marks: Mapping[Partition, Watermarks]) -> None:
        """Partitions were assigned, none of them paused; `marks` has those of `first`."""
        self._ends = {part: marks[part].end for part in marks if starts[part] < marks[part].end}
        self._paused = {part for part in starts if self._waits(part)}
        if self._paused:
            self._subscription.pause(self._paused)

    def is_reading(self, number: int) -> bool:
        """Whether such a backlog is still being read on a partition number."""
        return any(part.number == number for part in self._ends)

    def polled(self, records: Sequence[Record]) -> None:
        """Resume the partitions that wait for nothing more."""
        if not self._ends:
            return
        at = {part: end for part, end in self._subscription.ends().items() if part in self._ends}
        for record in records:
            at[record.partition] = max(at.get(record.partition, 0), record.offset + 1)
        self._ends = {part: end for part, end in self._ends.items() if at.get(part, 0) < end}
        if ready := {part for part in self._paused if not self._waits(part)}:
            self._paused -= ready
            self._subscription.resume(ready)

    def _waits(self, part: Partition) -> bool:
        place = self._order.get(part.topic, len(self._order))
        return any(
            other.number == part.number and self._order[other.topic] < place for other in self._ends
        )
