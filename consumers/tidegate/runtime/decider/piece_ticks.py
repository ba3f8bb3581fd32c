"""Which pieces of tables are due, so that a PiecewiseTimedDecider can decide on them.

What is due is decided at the broker's time, and only once every event that the broker appended
before it was applied: while a backlog is read, or a replay, the event that settles a matter may be
still to come. A process that has lost its partitions without noticing does not decide either: what
its successor has applied is on the topics, and unread here.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, NamedTuple, TypeVar

from tidegate.errors import TransientError
from tidegate.runtime.bus import Bus, Partition, Watermarks
from tidegate.runtime.decider.catch_up import CatchUp
from tidegate.runtime.decider.owned_partitions import OwnedPartition, OwnedPartitions
from tidegate.runtime.decider.ticks import BrokerTime

S = TypeVar("S")
TICK_SECONDS: Final = 2.0
"""Between two looks at what is due."""
_AT_ONCE: Final = 1000
"""Pieces of a partition that are decided on together."""


class Due(NamedTuple, Generic[S]):
    """A table of which pieces are due, and the broker's time."""

    owned: OwnedPartition[S]
    table: str
    names: Collection[str]
    at: datetime


class PieceTicks(Generic[S]):
    """Call `due` at every step of the loop; it looks now and then only."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the loop works with
        self,
        bus: Bus,
        inputs: Sequence[str],
        owned: OwnedPartitions[S],
        catch_up: CatchUp,
        clock: BrokerTime,
        every: float = TICK_SECONDS,
    ) -> None:
        """Take what the loop works with, and how often to look, in seconds."""
        self._bus, self._inputs, self._owned, self._catch_up = bus, inputs, owned, catch_up
        self._clock, self._every, self._next = clock, every, 0.0

    def due(self) -> Iterator[Due[S]]:
        """The tables of which something is due now."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        if (appended_ms := self._owned.appended_ms()) is not None:
            self._clock.saw(appended_ms)
        if (at := self._clock.now()) is None:
            return
        at_ms = int(at.timestamp() * 1000)
        numbers = [n for n in self._owned if self._is_due(n, at_ms)]
        for number in self._read_to_the_end(numbers):
            owned = self._owned[number]
            timers = owned.store.timers
            for table, names in timers.take(at_ms, _AT_ONCE).items() if timers else ():
                yield Due(owned, table, names, at)
            if self._is_due(number, at_ms):
                self._next = 0.0  # the rest at the next step

    def _is_due(self, number: int, at_ms: int) -> bool:
        timers = self._owned[number].store.timers
        return timers is not None and timers.is_due(at_ms)

    def _read_to_the_end(self, numbers: Sequence[int]) -> list[int]:
        """Those of which every event up to now was applied."""
        inputs = [Partition(topic, number) for number in numbers for topic in self._inputs]
        if not inputs:
            return []
        try:
            marks = self._bus.watermarks(inputs)
        except TransientError:  # the next look asks again; the loop meets the same broker itself
            return []
        return [number for number in numbers if self._is_read(number, marks)]

    def _is_read(self, number: int, marks: Mapping[Partition, Watermarks]) -> bool:
        if self._catch_up.is_reading(number):
            return False
        store = self._owned[number].store
        places = [marks[Partition(topic, number)] for topic in self._inputs]
        applied = [store.applied_to(topic) for topic in self._inputs]
        return all(
            max(at, location.first) >= location.end
            for at, location in zip(applied, places, strict=True)
        )
