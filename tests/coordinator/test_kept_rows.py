"""A decider's state over a rebalance: what comes back is kept, what moved is read, counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from support.memory_bus import MemoryBus, MemoryChangelog, MemorySubscription
from support.samples import EveryThird, commit, counted_of, memory_bus, message, outcomes_on
from tidegate.coordinator.loop import CoordinatorLoop
from tidegate.errors import TransientError
from tidegate.runtime.bus import ChangelogRecord
from tidegate.runtime.retry import RetryPolicy

if TYPE_CHECKING:
    import pytest

CHANGELOG = "tidegate.coordinator.changelog"
TABLES = [f"lake.sales.t{n}" for n in range(24)]


class CountingBus(MemoryBus):
    """Counts how often each partition of a changelog is read, and with how many records."""

    def __init__(self, partitions: int = 6) -> None:
        topics = {log.topic for log in memory_bus()._logs}
        super().__init__(topics, partitions)
        self.reads: Counter[int] = Counter()
        self.faults: list[TransientError] = []
        self.closed = 0

    def changelog(self, topic: str) -> MemoryChangelog:
        return CountingChangelog(self, topic)


class CountingChangelog(MemoryChangelog):
    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        assert isinstance(self._bus, CountingBus)
        for number, records in super().acquire(numbers, kept):
            self._bus.reads[number] += 1
            yield number, records[:1]
            if self._bus.faults:
                raise self._bus.faults.pop()
            yield number, records[1:]

    def close(self) -> None:
        assert isinstance(self._bus, CountingBus)
        self._bus.closed += 1


def step_all(*loops: CoordinatorLoop) -> None:
    while sum(loop.step(0) for loop in loops):
        pass


def counts(*loops: CoordinatorLoop) -> dict[str, int]:
    return {
        table: counted_of(loop._owned[number].store, table)
        for loop in loops
        for number in loop._owned
        for table in loop._owned[number].store.tables()
    }


def test_a_join_and_a_leave_read_only_the_partitions_that_moved() -> None:
    bus = CountingBus()
    bus.send([message(commit(0, table)) for table in TABLES])
    first = CoordinatorLoop(EveryThird(), bus)
    step_all(first)
    owned, before = set(first._owned), counts(first)
    bus.reads.clear()

    second = CoordinatorLoop(EveryThird(), bus)
    step_all(first, second)
    moved = owned - set(first._owned)
    assert moved == set(second._owned)
    assert bus.reads == Counter(dict.fromkeys(moved, 1))
    assert counts(first, second) == before

    bus.reads.clear()
    bus.send([message(commit(1, table)) for table in TABLES])
    step_all(first, second)
    second.close()
    step_all(first)
    assert bus.reads == Counter(dict.fromkeys(moved, 1))
    assert counts(first) == dict.fromkeys(TABLES, 2)
    bus.send([message(commit(2, table)) for table in TABLES])
    step_all(first)
    assert sorted(event.table for event in outcomes_on(bus)) == sorted(TABLES)


def test_a_kept_partition_that_another_process_has_written_to_is_read_again() -> None:
    bus = CountingBus(partitions=1)
    bus.send([message(commit(0, "lake.sales.orders"))])
    first = CoordinatorLoop(EveryThird(), bus)
    step_all(first)
    first.revoked(())
    between = CoordinatorLoop(EveryThird(), bus)
    bus.send([message(commit(1, "lake.sales.orders"))])
    bus._members["tidegate.coordinator"].remove(first._subscription)  # type: ignore[arg-type]
    bus._rebalance("tidegate.coordinator")
    step_all(between)
    starts = dict(bus.committed["tidegate.coordinator"])
    bus.reads.clear()
    first.assigned(starts)

    assert bus.reads == Counter({0: 1})
    assert counts(first) == {"lake.sales.orders": 2}


def test_what_was_lost_with_work_pending_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = CountingBus(partitions=1)
    bus.send([message(commit(0, "lake.sales.orders"))])
    loop = CoordinatorLoop(EveryThird(), bus)
    step_all(loop)
    with monkeypatch.context() as unfinished:
        unfinished.setattr(loop, "_finish", lambda **_: None)
        bus.send([message(commit(1, "lake.sales.orders"))])
        loop.step(0)
    assert counts(loop) == {"lake.sales.orders": 2}  # applied, and written nowhere
    assert isinstance(loop._subscription, MemorySubscription)
    loop.lost(())
    loop.assigned(dict(bus.committed["tidegate.coordinator"]))

    assert counts(loop) == {"lake.sales.orders": 1}


def test_after_a_transient_fault_in_the_middle_of_it_the_state_is_acquired_and_read_anew() -> None:
    bus = CountingBus(partitions=1)
    bus.send([message(commit(n, f"lake.sales.t{n}")) for n in range(4)])
    step_all(CoordinatorLoop(EveryThird(), bus))
    bus._members.clear()
    bus.reads.clear()
    bus.closed, bus.faults = 0, [TransientError("the broker is away")]
    epochs = sum(bus.epochs.values())
    loop = CoordinatorLoop(EveryThird(), bus, retries=RetryPolicy(3, 0.001, 0.001))
    step_all(loop)

    assert bus.reads == Counter({0: 2})
    assert (bus.closed, sum(bus.epochs.values())) == (1, epochs + 2)
    assert counts(loop) == {f"lake.sales.t{n}": 1 for n in range(4)}


class StopAtTheSecondLook(threading.Event):
    """A signal that arrives while the state is read."""

    looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 1


def test_a_decider_that_is_asked_to_stop_while_it_reads_its_state_ends_at_once() -> None:
    bus = CountingBus()
    bus.send([message(commit(0, table)) for table in TABLES])
    step_all(CoordinatorLoop(EveryThird(), bus))
    bus._members.clear()
    bus.reads.clear()
    loop = CoordinatorLoop(EveryThird(), bus)
    stop = StopAtTheSecondLook()
    loop.run(stop)
    loop.close()

    assert sum(bus.reads.values()) == 1
    assert list(loop._owned) == []


def test_state_that_another_has_changed_is_not_kept_over_a_fault_after_it_was_read() -> None:
    bus = CountingBus(partitions=2)
    bus.send([message(commit(0, table)) for table in TABLES])
    first = CoordinatorLoop(EveryThird(), bus, retries=RetryPolicy(3, 0.001, 0.001))
    step_all(first)
    first.revoked(())
    bus._members.clear()
    bus.send([message(commit(1, table)) for table in TABLES])
    step_all(CoordinatorLoop(EveryThird(), bus))
    bus._members.clear()
    changelog_of = first._owned._changelog
    assert isinstance(changelog_of, MemoryChangelog)
    with_fault = FaultAtTheEnd(changelog_of)
    first._owned._changelog = with_fault
    first.assigned(dict(bus.committed["tidegate.coordinator"]))

    assert with_fault.calls == 2
    assert counts(first) == dict.fromkeys(TABLES, 2)


class FaultAtTheEnd(MemoryChangelog):
    """The broker goes away once everything was read, as where signatures are to be erased."""

    def __init__(self, inner: MemoryChangelog) -> None:
        super().__init__(inner._bus, inner._topic)
        self._ends, self.calls = inner._ends, 0

    def acquire(
        self, numbers: Collection[int], kept: Collection[int] = ()
    ) -> Iterator[tuple[int, Sequence[ChangelogRecord]]]:
        yield from super().acquire(numbers, kept)
        self.calls += 1
        if self.calls == 1:
            raise TransientError("the broker is away")
