"""The partitions that a decider's process owns: their state, and the work pending on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidegate.errors import StoppingError
from tidegate.events import topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Offsets, Partition
from tidegate.runtime.decider.pieces import RECENT_BYTES
from tidegate.runtime.decider.state_store import StateStore, store_of
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.protocols import Decider
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
S = TypeVar("S")


@dataclass(slots=True)
class PendingWork:
    """What was decided on a partition and is not yet published, written and committed."""

    messages: list[Message] = field(default_factory=list[Message])
    """Commands and outcomes to publish, in the order of the decisions."""
    read_up_to: dict[Partition, int] = field(default_factory=dict[Partition, int])
    """By input partition the offset to commit: that of the next record to read."""
    has_ticked: bool = False
    """Whether something was decided without any record."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is pending."""
        return not self.read_up_to and not self.has_ticked

    def clear(self) -> None:
        """All of it is published, written and committed."""
        self.messages, self.read_up_to, self.has_ticked = [], {}, False


@dataclass(slots=True)
class OwnedPartition(Generic[S]):
    """One partition number: its state, and the work pending on it."""

    store: StateStore[S]
    pending: PendingWork = field(default_factory=PendingWork)

    def pass_end(self, where: Partition, end: int, committed: int) -> None:
        """All records before this offset of an input were applied: go past what holds none."""
        if end > self.pending.read_up_to.get(where, committed):
            self.pending.read_up_to[where] = end
            self.store.advance(where.topic, max(end, self.store.applied_to(where.topic)) - 1)

    def commit_again(self, where: Partition) -> None:
        """Commit an input's position once more: its metadata has changed."""
        self.pending.read_up_to.setdefault(where, self.store.applied_to(where.topic))


class OwnedPartitions(Generic[S]):
    """The partition numbers that a decider's process owns.

    Order of calls: `restore` at an assignment; `write` while they are owned; before the next
    assignment `release`, or `drop`.
    """

    def __init__(
        self,
        decider: Decider[S],
        bus: Bus,
        prefix: str,
        inputs: Sequence[str],
        retries: RetryPolicy,
    ) -> None:
        """Own nothing yet."""
        self._decider, self._bus, self._inputs, self._retries = decider, bus, inputs, retries
        self._topic = topics.changelog(decider.name).name(prefix)
        self._changelog = bus.changelog(self._topic)
        self._owned: dict[int, OwnedPartition[S]] = {}
        self._released: dict[int, StateStore[S]] = {}
        """What the last revocation took, all of it written: it may come back."""

    def __getitem__(self, number: int) -> OwnedPartition[S]:
        """The partition of this number."""
        return self._owned[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers owned."""
        return iter(self._owned)

    def stores(self) -> dict[int, StateStore[S]]:
        """The states owned, by number."""
        return {number: each.store for number, each in self._owned.items()}

    def appended_ms(self) -> int | None:
        """When the broker appended the last record of a state, in ms since the epoch."""
        return self._changelog.appended_ms()

    def with_pending_work(self) -> dict[int, OwnedPartition[S]]:
        """Those with pending work, by number."""
        return {n: each for n, each in sorted(self._owned.items()) if not each.pending.is_empty}

    def restore(self, starts: Offsets, stopping: Callable[[], bool] = lambda: False) -> None:
        """Acquire the changelog of each partition and read it.

        Of a partition that was released, and that nobody has written to since, nothing is read.

        Args:
            starts: By input partition the committed offset.
            stopping: Asked while reading, which may take long.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost the state that
                followed from events whose offsets are committed.
            StoppingError: `stopping` said so.
        """
        numbers = sorted({start.number for start in starts})
        if not numbers:
            self._released.clear()
            return
        with gc_paused():
            stores = self._retries.call(lambda: self._acquire(numbers, stopping))
            self._retries.call(lambda: self._check(stores, starts))
        self._released.clear()
        for store in stores.values():
            store.recent.bound(RECENT_BYTES // len(stores))
        self._owned = {number: OwnedPartition(store) for number, store in stores.items()}

    def write(self, changed: Mapping[int, OwnedPartition[S]]) -> None:
        """Write what changed in each; return when all of it is written.

        Raises:
            FencedError: another process has acquired one of them.
        """
        # A store lists its changes once: a retry has to write the same records.
        records = {number: each.store.changed_records() for number, each in changed.items()}
        self._retries.call(lambda: self._changelog.write(records))

    def release(self) -> None:
        """Give up all, with nothing pending; keep their state in case they come back."""
        self._released = {number: each.store for number, each in self._owned.items()}
        self._owned.clear()
        self._changelog.close()

    def drop(self) -> None:
        """Forget all, with the work pending on them."""
        self._owned.clear()
        self._released.clear()
        self._changelog.close()

    def _acquire(
        self, numbers: Sequence[int], stopping: Callable[[], bool]
    ) -> dict[int, StateStore[S]]:
        """Acquire and read; a retry begins anew with all of them."""
        kept = {number: each for number, each in self._released.items() if number in numbers}
        read: dict[int, StateStore[S]] = {}
        with ExitStack() as on_error:
            on_error.callback(self._changelog.close)
            for number, records in self._changelog.acquire(numbers, known=kept.keys()):
                if number not in read:
                    self._released.pop(number, None)  # outdated: a retry must not keep it either
                    read[number] = store_of(self._decider)
                read[number].restore(records)
                if stopping():
                    raise StoppingError(f"{self._decider.name} stops before its state is restored")
            on_error.pop_all()
        stores = {n: read[n] if n in read else kept.get(n) for n in numbers}
        log.info(
            "%s owns partitions %s: %d of them kept their state",
            *(self._decider.name, numbers, len(kept.keys() - read.keys())),
        )
        return {n: store_of(self._decider) if s is None else s for n, s in stores.items()}

    def _check(self, stores: Mapping[int, StateStore[S]], starts: Offsets) -> None:
        count = self._bus.partitions(self._topic)
        inputs = [Partition(topic, number) for number in stores for topic in self._inputs]
        watermarks = self._bus.watermarks(inputs)
        for number, store in stores.items():
            store.check_partitions(count)
            for topic in self._inputs:
                where = Partition(topic, number)
                store.check(topic, watermarks[where], starts.get(where))
