"""The partitions that a coordinator's process owns: their rows, and the positions to commit.

The backlogs that are still read, and the broker's time, stand here too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tidegate.coordinator.rows.position import lost_head, new_changelog
from tidegate.coordinator.rows.store import Store
from tidegate.coordinator.subject import Subject
from tidegate.errors import OffsetGapError, StoppingError, StopService
from tidegate.events.fields import from_ms
from tidegate.events.topics import CHANGELOG, OUTCOME_TOPIC
from tidegate.runtime.bus import (
    Bus,
    ChangelogRecord,
    Offsets,
    Partition,
    Record,
    Subscription,
    Watermarks,
)
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
_MOST_AHEAD_MS: Final = 86_400_000


@dataclass(slots=True)
class OwnedPartition:
    """One partition number: its rows, and the work on them that is not finished."""

    store: Store
    read_up_to: dict[Partition, int] = field(default_factory=dict[Partition, int])
    """By input partition the offset to commit: that of the next record to read."""

    def pass_end(self, where: Partition, end: int, committed: int) -> None:
        """All records before this offset of an input were applied: advance to it."""
        if end > self.read_up_to.get(where, committed):
            self.read_up_to[where] = end
            self.store.advance(where.topic, max(end, self.store.applied_to(where.topic)) - 1)

    def commit_again(self, where: Partition) -> None:
        """Commit an input's position once more: its metadata has changed."""
        self.read_up_to.setdefault(where, self.store.applied_to(where.topic))


class OwnedPartitions(dict[int, OwnedPartition]):
    """The partitions that a coordinator's process owns, by number.

    Order of calls: `restore` at an assignment; `write` while they are owned; before the next
    assignment `release`, or `drop`.
    """

    def __init__(
        self, subject: Subject, bus: Bus, prefix: str, inputs: Sequence[str], retries: RetryPolicy
    ) -> None:
        """Own nothing yet."""
        super().__init__()
        self._subject, self._bus, self._inputs, self._retries = subject, bus, inputs, retries
        self._topic, self._outcomes = CHANGELOG.name(prefix), OUTCOME_TOPIC.name(prefix)
        self._changelog = bus.changelog(self._topic)
        self._released: dict[int, Store] = {}
        """Stores of the partitions just revoked, all rows written; reused if reassigned."""

    def appended_ms(self) -> int | None:
        """When the broker appended the last record of the changelog, in ms since the epoch."""
        return self._changelog.appended_ms()

    def rebuilt_to(self) -> dict[Partition, int]:
        """By input partition the offset up to which lost rows are made again."""
        return {
            Partition(topic, number): end
            for number, owned in self.items()
            for topic, end in owned.store.position.rebuilt_to.items()
        }

    def pending(self) -> dict[int, OwnedPartition]:
        """Those with offsets to commit, or messages to publish, by number."""
        return {n: it for n, it in sorted(self.items()) if it.read_up_to or it.store.unsent}

    def restore(self, starts: Offsets, stopping: Callable[[], bool] = lambda: False) -> None:
        """Acquire the changelog of each partition and read it.

        Of a partition that was released, and that no other process has written to since, nothing is
        read.

        Args:
            starts: By input partition the committed offset.
            stopping: Asked while reading, which may take long.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost rows.
            StoppingError: `stopping` returned True.
        """
        numbers = sorted({start.number for start in starts})
        if not numbers:
            self._released.clear()
            return
        with gc_paused():
            stores = self._retries.call(lambda: self._acquire(numbers, stopping))
            self._retries.call(lambda: self._check(stores, starts))
        self._released.clear()
        self.clear()
        self.update({number: OwnedPartition(store) for number, store in stores.items()})

    def write(self, changed: Mapping[int, OwnedPartition]) -> None:
        """Append the changed rows of each, the position last; return when all of it is written.

        Raises:
            StopService: another process has acquired one of them.
        """
        if not changed:
            return
        # a store lists its changes once: a retry has to write the same records
        records = {number: owned.store.batch() for number, owned in changed.items()}
        self._retries.call(lambda: self._changelog.write(records))

    def release(self) -> None:
        """Give up all, with nothing pending; keep their rows in case they come back."""
        self._released = {number: owned.store for number, owned in self.items()}
        self.clear()
        self._changelog.close()

    def drop(self) -> None:
        """Forget all, with the work pending on them."""
        self.clear()
        self._released.clear()
        self._changelog.close()

    def _acquire(self, numbers: Sequence[int], stopping: Callable[[], bool]) -> dict[int, Store]:
        """Acquire and read; a retry begins anew with all of them."""
        stores = {n: store for n, store in self._released.items() if n in numbers}
        with ExitStack() as on_error:
            on_error.callback(self._changelog.close)
            read: dict[int, list[ChangelogRecord]] = {}
            for number, records in self._changelog.acquire(numbers, kept=[*stores]):
                self._released.pop(number, None)  # outdated: a retry must not keep it either
                read.setdefault(number, []).extend(records)
                if stopping():
                    raise StoppingError("the coordinator stops before its rows are restored")
            on_error.pop_all()
        count = len(set(numbers) - (stores.keys() - read.keys()))
        log.info("coordinator owns partitions %s; it read the rows of %d back", numbers, count)
        for number in numbers:
            if number not in stores or number in read:
                stores[number] = Store(self._subject.row_types)
                stores[number].restore(read.pop(number, ()))
                self._derive(stores[number])
        return stores

    def _derive(self, store: Store) -> None:
        try:
            self._subject.restored(store)
        except (ValueError, TypeError, LookupError) as error:
            raise StopService(f"a row in the changelog can't be read: {error!r}") from error

    def _check(self, stores: Mapping[int, Store], starts: Offsets) -> None:
        count = self._bus.partitions(self._topic)
        inputs = [Partition(topic, number) for number in stores for topic in self._inputs]
        own = [Partition(self._topic, number) for number in stores]
        watermarks = self._bus.watermarks([*inputs, *own])
        for where in own:
            if lost := lost_head(where, watermarks[where].first):
                raise OffsetGapError(f"{lost}. To go on, {new_changelog(self._topic)}")
        for number, store in stores.items():
            position, is_new = store.position, store.position.is_new
            position.check_partitions(count)
            for topic in self._inputs:
                where = Partition(topic, number)
                position.check(topic, watermarks[where], starts.get(where))
            if is_new:
                ends = {topic: watermarks[Partition(topic, number)].end for topic in self._inputs}
                position.rebuilt_to = ends if ends.get(self._outcomes) else {}


class CatchUp:
    """Which inputs are paused after an assignment, while others of the same number catch up.

    The backlogs of requests and vacuums come first: so an old hold is applied before a newer
    release, and a vacuum before the release that it waits for can be forgotten. Where lost rows are
    made again, the outcomes come before them: what was done is not done again.

    Order of calls: `assigned`, then `polled` after every poll.
    """

    def __init__(self, first: Sequence[str], outcomes: str, subscription: Subscription) -> None:
        """Take the topics whose backlogs come first, in order, and the one with the outcomes."""
        self._order = {topic: place for place, topic in enumerate(first)}
        self._outcomes, self._subscription = outcomes, subscription
        self._ends: dict[Partition, int] = {}
        """By partition whose backlog comes first, where that ends."""
        self._rebuilt_to: Offsets = {}
        self._paused: set[Partition] = set()

    def read_first(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions whose backlog comes first."""
        return [p for p in partitions if p.topic in self._order or p.topic == self._outcomes]

    def assigned(
        self, starts: Offsets, marks: Mapping[Partition, Watermarks], rebuilt_to: Offsets
    ) -> None:
        """Partitions were assigned, none of them paused.

        Args:
            starts: By partition the committed offset.
            marks: Those of `read_first`.
            rebuilt_to: By partition the offset up to which lost rows are made again.
        """
        self._rebuilt_to = rebuilt_to
        self._ends = {
            part: mark.end
            for part, mark in marks.items()
            if starts[part]
            < (rebuilt_to.get(part, 0) if part.topic == self._outcomes else mark.end)
        }
        self._paused = {part for part in starts if self._waits(part)}
        if self._paused:
            self._subscription.pause(self._paused)

    def is_rebuilding(self, record: Record) -> bool:
        """Whether lost rows are made again from a record: what it led to may be done already."""
        return record.offset < self._rebuilt_to.get(record.partition, 0)

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
        place = self._place(part)
        return any(
            other.number == part.number and self._place(other) < place for other in self._ends
        )

    def _place(self, part: Partition) -> int:
        if part.topic == self._outcomes and part in self._ends:
            return -1
        return self._order.get(part.topic, len(self._order))


class BrokerTime:
    """The broker's time: the only clock by which the coordinator decides that something is due.

    It is the newest append time of a record that was read, and the time that this process has
    measured since. No clock of a writer counts. It never runs backwards, and never ahead of this
    machine's own clock: where the two differ, due work waits.
    """

    def __init__(
        self, elapsed: Callable[[], float] = time.monotonic, own: Callable[[], float] = time.time
    ) -> None:
        """Know nothing yet. `elapsed` measures seconds, `own` is this machine's clock."""
        self._elapsed, self._own = elapsed, own
        self._offset: float | None = None

    def saw(self, timestamp_ms: int) -> None:
        """A record with this append time was read; an old one changes nothing."""
        offset = timestamp_ms / 1000 - self._elapsed()
        if self._offset is None or offset > self._offset:
            self._offset = offset

    def of(self, record: Record) -> datetime:
        """When the broker appended a record; where its clock was days ahead, this machine's time.

        A row with such a time would be due, or the newest request, for as long.
        """
        own_ms, at_ms = int(1000 * self._own()), record.timestamp_ms
        return from_ms(own_ms if at_ms - own_ms > _MOST_AHEAD_MS else at_ms)

    def now(self) -> datetime | None:
        """The time; None before the first record."""
        if self._offset is None:
            return None
        return datetime.fromtimestamp(min(self._elapsed() + self._offset, self._own()), UTC)
