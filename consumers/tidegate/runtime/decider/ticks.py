"""What a decider does when time alone has passed: which tables are due, and by which clock.

The clock is the broker's: the newest append time that was seen, and what this process has measured
since. No clock of a writer counts. Time never runs backwards, and never ahead of this machine's
own clock: where the two differ, what is due waits.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from tidegate.runtime.decider.state_store import StateStore
from tidegate.runtime.protocols import Decider, TimedDecider

S = TypeVar("S")
AT_ONCE: Final = 100
"""Tables of a partition that are due in one step: events must not wait for long."""
_NOT_AGAIN_BEFORE: Final = timedelta(minutes=1)


class BrokerTime:
    """The broker's time, as far as it is known from the records that were read."""

    def __init__(
        self,
        elapsed: Callable[[], float] = time.monotonic,
        own: Callable[[], float] = time.time,
    ) -> None:
        """Know nothing yet. `elapsed` measures seconds, `own` is this machine's clock."""
        self._elapsed, self._own = elapsed, own
        self._offset: float | None = None

    def saw(self, timestamp_ms: int) -> None:
        """A record with this append time was read; an old one changes nothing."""
        offset = timestamp_ms / 1000 - self._elapsed()
        if self._offset is None or offset > self._offset:
            self._offset = offset

    def now(self) -> datetime | None:
        """The time; None before the first record."""
        if self._offset is None:
            return None
        return datetime.fromtimestamp(min(self._elapsed() + self._offset, self._own()), UTC)


@dataclass(slots=True)
class _Schedule:
    """When each table of a partition is due."""

    times: dict[str, datetime] = field(default_factory=dict[str, datetime])
    queue: list[tuple[datetime, str]] = field(default_factory=list[tuple[datetime, str]])
    """A heap; an entry counts only if `times` has the same."""

    def set(self, table: str, due: datetime | None) -> None:
        if due is None:
            self.times.pop(table, None)
        elif self.times.get(table) != due:
            self.times[table] = due
            heapq.heappush(self.queue, (due, table))

    def pop(self, now: datetime) -> Iterator[str]:
        """At most AT_ONCE tables that are due, each taken out."""
        count = 0
        while self.queue and self.queue[0][0] <= now and count < AT_ONCE:
            due, table = heapq.heappop(self.queue)
            if self.times.get(table) == due:
                del self.times[table]
                count += 1
                yield table


class Ticks(Generic[S]):
    """The times at which the tables of the owned partitions are due.

    Order of calls: `assigned`; then `saw` for what is read, `changed` after each decision, and
    `due_tables`, each of which is to be decided and given to `ticked`. For a decider without ticks
    all of it does nothing.
    """

    def __init__(self, decider: Decider[S], clock: BrokerTime | None = None) -> None:
        """Take the decider, which may be a TimedDecider."""
        self.decider: TimedDecider[S] | None = (
            decider if isinstance(decider, TimedDecider) else None
        )
        self._clock = clock or BrokerTime()
        self._schedules: dict[int, _Schedule] = {}

    def assigned(self, stores: Mapping[int, StateStore[S]]) -> None:
        """These partitions are owned from now on, and no others; their states are read.

        Raises:
            StopService: a table's record can't be read.
        """
        self._schedules = {}
        if self.decider is None:
            return
        for number, store in stores.items():
            schedule = self._schedules[number] = _Schedule()
            for table, record in store.tables():
                schedule.set(table, self.decider.due(table, record.state))

    def saw(self, timestamp_ms: int) -> None:
        """A record with this append time was read."""
        if self.decider is not None:
            self._clock.saw(timestamp_ms)

    @property
    def clock(self) -> BrokerTime:
        """The broker's time."""
        return self._clock

    def changed(self, number: int, table: str, state: S) -> None:
        """A table has this state now."""
        if self.decider is not None:
            self._schedules[number].set(table, self.decider.due(table, state))

    def due_tables(self) -> Iterator[tuple[int, str, datetime]]:
        """Tables that are due now, with the partition's number and the time."""
        now = self._clock.now() if self.decider is not None else None
        if now is None:
            return
        for number, schedule in self._schedules.items():
            for table in schedule.pop(now):
                yield number, table, now

    def ticked(self, number: int, table: str, state: S, at: datetime) -> None:
        """A table was decided; it is not due again at once, whatever it says."""
        if self.decider is not None:
            due = self.decider.due(table, state)
            later = None if due is None else max(due, at + _NOT_AGAIN_BEFORE)
            self._schedules[number].set(table, later)
