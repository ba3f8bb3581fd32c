"""A member of a consumer group on the bus in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import OffsetGapError
from tidegate.runtime.bus import NO_NOTES, Listener, Notes, Offsets, Partition, Record

if TYPE_CHECKING:
    from tidegate.runtime.memory import MemoryBus


class MemorySubscription:
    """A member of a consumer group in memory."""

    def __init__(
        self, bus: MemoryBus, group: str, topics: Sequence[str], listener: Listener
    ) -> None:
        """Join; partitions arrive with the first poll."""
        self._bus, self._group, self._listener = bus, group, listener
        self.topics = tuple(topics)
        self._wanted: tuple[Partition, ...] | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._expelled = False

    def reassign(self, partitions: tuple[Partition, ...]) -> None:
        """Give the member its new partitions at its next poll (called by the bus)."""
        self._wanted = partitions

    def poll(self, limit: int, timeout: float) -> Sequence[Record]:
        """Take what is there, waiting for a first record."""
        self._follow_assignment()
        deadline = time.monotonic() + timeout
        while True:
            records = self._take(limit)
            if records or time.monotonic() >= deadline:
                return records
            self._bus.wait(deadline - time.monotonic())

    def commit(self, at: Offsets, notes: Notes = NO_NOTES, *, wait: bool = False) -> None:  # noqa: ARG002
        """Commit those that are still ours."""
        held = [] if self._expelled else [each for each in at if each in self._positions]
        self._bus.committed[self._group].update({each: at[each] for each in held})
        self._bus.notes[self._group].update({each: notes.get(each, "") for each in held})

    def noted(self, partition: Partition) -> str:
        """Look it up."""
        return self._bus.notes[self._group].get(partition, "")

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Pause."""
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Resume."""
        self._paused -= set(partitions)

    def close(self) -> None:
        """Leave the group."""
        if self._positions:
            self._listener.revoked(tuple(self._positions))
        self._positions = {}
        self._bus.leave(self._group, self)

    def expel(self) -> None:
        """Take the partitions away behind the member's back, as a time-out does."""
        self._expelled = True
        self._bus.leave(self._group, self)

    def _follow_assignment(self) -> None:
        if self._expelled and self._positions:
            self._listener.lost(tuple(self._positions))
            self._positions = {}
        if self._wanted is None:
            return
        wanted, self._wanted = self._wanted, None
        if self._positions:
            self._listener.revoked(tuple(self._positions))
        self._positions = {}
        self._paused = set()
        if wanted:
            starts = {each: self._start(each) for each in wanted}
            self._listener.assigned(starts)
            self._positions = starts

    def _start(self, partition: Partition) -> int:
        at = self._bus.committed[self._group].get(partition, 0)
        end = len(self._bus.log(partition))
        if at > end:
            raise OffsetGapError(f"{self._group}: offset {at} of {partition}, which ends at {end}")
        return at

    def _take(self, limit: int) -> list[Record]:
        taken: list[Record] = []
        for partition, at in self._positions.items():
            if partition not in self._paused and len(taken) < limit:
                new = self._bus.log(partition)[at : at + limit - len(taken)]
                self._positions[partition] = at + len(new)
                taken += new
        return taken
