"""After an assignment, the backlog of a subject's first input is read before those of the others.

Rows of the other inputs that only wait for an event of the first one need then not outlast a
backlog: a release of last week is not forgotten before the vacuum that waits for it
is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.runtime.bus import Offsets, Partition, Record, Subscription, Watermarks


class CatchUp:
    """Which partitions are paused until the first input's of the same number has caught up.

    Order of calls: `assigned`, then `before_poll` and `polled` around every poll.
    """

    def __init__(self, first: str) -> None:
        """Take the topic whose backlog comes first."""
        self.first = first
        self._ends: dict[int, int] = {}
        """By partition number where the backlog of the first input ends."""
        self._to_pause: set[Partition] = set()
        self._paused: set[Partition] = set()

    def assigned(self, starts: Offsets, marks: Mapping[Partition, Watermarks]) -> None:
        """Partitions were assigned; `marks` has those of the first input."""
        self._ends = {
            part.number: marks[part].end
            for part, start in starts.items()
            if part.topic == self.first and start < marks[part].end
        }
        others = (start for start in starts if start.topic != self.first)
        self._to_pause = {other for other in others if other.number in self._ends}
        self._paused = set()  # a pause does not outlive an assignment

    def is_reading(self, number: int) -> bool:
        """Whether the backlog of the first input is still being read on a partition number."""
        return number in self._ends

    def before_poll(self, subscription: Subscription) -> None:
        """Pause what was assigned by the last poll; the records that it brought do no harm."""
        if self._to_pause:
            subscription.pause(self._to_pause)
            self._paused, self._to_pause = self._to_pause, set()

    def polled(self, records: Sequence[Record], subscription: Subscription) -> None:
        """Resume the partitions whose number has caught up."""
        if not self._ends:
            return
        at = {part.number: end for part, end in subscription.ends().items() if self._is_first(part)}
        for record in records:
            if self._is_first(record.partition):
                number = record.partition.number
                at[number] = max(at.get(number, 0), record.offset + 1)
        self._ends = {number: end for number, end in self._ends.items() if at.get(number, 0) < end}
        if ready := {part for part in self._paused if part.number not in self._ends}:
            self._paused -= ready
            subscription.resume(ready)
        self._to_pause = {part for part in self._to_pause if part.number in self._ends}

    def _is_first(self, partition: Partition) -> bool:
        return partition.topic == self.first
