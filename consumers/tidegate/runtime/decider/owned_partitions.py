"""The partitions that a decider's process owns: their state, and the work pending on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from tidegate.events import topics
from tidegate.publisher import Message
from tidegate.runtime.bus import Bus, Changelog, Offsets, Partition
from tidegate.runtime.daemon_pool import DaemonPool
from tidegate.runtime.decider.state_store import StateStore, store_of
from tidegate.runtime.gc_pause import gc_paused
from tidegate.runtime.protocols import Decider
from tidegate.runtime.retry import RetryPolicy

log = logging.getLogger(__name__)
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 8
"""Changelog partitions that are restored, or written, at the same time."""


@dataclass(slots=True)
class PendingWork:
    """What was decided on a partition and is not yet published, written and committed."""

    messages: list[Message] = field(default_factory=list[Message])
    """Commands and outcomes to publish, in the order of the decisions."""
    read_up_to: dict[Partition, int] = field(default_factory=dict[Partition, int])
    """By input partition the offset to commit: that of the next record to read."""

    def clear(self) -> None:
        """All of it is published, written and committed."""
        self.messages, self.read_up_to = [], {}


@dataclass(slots=True)
class OwnedPartition(Generic[S]):
    """One partition number: its state, its changelog, and the work pending on it."""

    store: StateStore[S]
    changelog: Changelog
    pending: PendingWork = field(default_factory=PendingWork)


class OwnedPartitions(Generic[S]):
    """The partition numbers that a decider's process owns."""

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
        self._changelog = topics.changelog(decider.name).name(prefix)
        self._owned: dict[int, OwnedPartition[S]] = {}
        self._pool = DaemonPool(AT_ONCE, f"{decider.name}-partitions")

    def __getitem__(self, number: int) -> OwnedPartition[S]:
        """The partition of this number."""
        return self._owned[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers owned."""
        return iter(self._owned)

    def with_pending_work(self) -> list[OwnedPartition[S]]:
        """Those with pending work, by number."""
        return [each for _, each in sorted(self._owned.items()) if each.pending.read_up_to]

    def restore(self, starts: Offsets) -> None:
        """Acquire each partition's changelog and read it whole, several at a time.

        Raises:
            OffsetGapError: events would be skipped, or the changelog has lost the state that
                followed from events whose offsets are committed.
        """
        numbers = sorted({each.number for each in starts})
        with gc_paused():
            acquired = self._in_parallel(partial(self._acquire, starts), numbers)
        self._owned.update(zip(numbers, acquired, strict=True))

    def write(self, changed: Sequence[OwnedPartition[S]]) -> None:
        """Write what changed in each, several at a time; return when all of it is written.

        Raises:
            FencedError: another process has acquired one of them.
        """
        self._in_parallel(self._write, changed)

    def drop(self, numbers: Iterable[int] | None = None) -> None:
        """Drop some, with the work pending on them; by default all."""
        for number in tuple(self._owned if numbers is None else numbers):
            if dropped := self._owned.pop(number, None):
                dropped.changelog.close()

    def close(self) -> None:
        """Drop all, and end the threads."""
        self.drop()
        self._pool.shutdown()

    def _in_parallel(self, action: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run the action on every item. Even after a fault, none still runs when this returns.

        A write that went on behind the caller's back could end after a later one began, or after
        the partition was dropped.
        """
        if len(items) == 1:
            return [action(items[0])]
        running = [self._pool.submit(action, each) for each in items]
        wait(running)
        return [each.result() for each in running]

    def _write(self, owned: OwnedPartition[S]) -> None:
        # The store lists its changes once: a retry has to write the same records.
        records = owned.store.changed_records()
        self._retries.call(lambda: owned.changelog.write(records))

    def _acquire(self, starts: Offsets, number: int) -> OwnedPartition[S]:
        return self._retries.call(lambda: self._restore(starts, number))

    def _restore(self, starts: Offsets, number: int) -> OwnedPartition[S]:
        # The changelog is acquired before it is read: its last owner can write nothing after that.
        changelog = self._bus.changelog(self._changelog, number)
        store = store_of(self._decider)
        with ExitStack() as on_error:
            on_error.callback(changelog.close)  # a retry acquires it anew
            store.restore(changelog.read())
            store.check_partitions(self._bus.partitions(self._changelog))
            for topic in self._inputs:
                where = Partition(topic, number)
                store.check(topic, self._bus.watermarks(where), starts.get(where))
            on_error.pop_all()
        log.info("%s owns partition %d: %d tables", self._decider.name, number, len(store))
        return OwnedPartition(store, changelog)
