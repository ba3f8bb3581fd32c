"""Which commands of a partition are in memory: order, bounds, and none waits without end."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

import pytest

from tidegate.runtime.executor.backlog import Backlog, BacklogLimits

MAX_SIZE = 60
WINDOW = 5000
HOT, HEALTHY = "lake.sales.hot", "lake.sales.healthy"


def test_what_is_read_again_is_queued_only_in_its_own_turn() -> None:
    backlog = Backlog(BacklogLimits(commands=30))
    assert [backlog.add(HOT, n, 1) for n in range(6)] == [True, True, False, False, False, False]
    for _ in range(2):
        backlog.finished(HOT, 1)

    assert list(backlog.wanted()) == [2, 3, 4]
    assert not backlog.bring_back(HOT, 3, 1)
    assert not backlog.bring_back(HEALTHY, 2, 1)
    assert [backlog.bring_back(HOT, n, 1) for n in (2, 2, 3, 4)] == [True, False, True, False]


def test_large_commands_are_kept_by_their_size_and_the_next_one_always() -> None:
    backlog = Backlog(BacklogLimits(size=1000))

    assert [backlog.add(HOT, n, 400) for n in range(4)] == [True, True, False, False]
    assert backlog.add(HEALTHY, 4, 900)
    assert not backlog.wanted()
    for _ in range(2):
        backlog.finished(HOT, 400)
    assert next(iter(backlog.wanted())) == 2


def test_what_had_no_room_is_not_read_again_and_again_before_anything_is_done() -> None:
    backlog = Backlog(BacklogLimits(size=1000))
    assert [backlog.add(HOT, n, size) for n, size in enumerate([400, 400, 700])][2] is False
    backlog.finished(HOT, 400)
    assert backlog.wanted() == {2: HOT}
    assert not backlog.bring_back(HOT, 2, 700)

    assert backlog.wanted() == {}
    backlog.finished(HOT, 400)
    assert backlog.wanted() == {2: HOT}
    assert backlog.bring_back(HOT, 2, 700)


def test_a_partition_with_unfinished_commands_of_too_many_tables_is_full() -> None:
    backlog = Backlog(BacklogLimits(tables=2))
    assert backlog.add("a", 0, 1)
    assert not backlog.is_full
    assert backlog.add("b", 1, 1)
    assert backlog.is_full
    backlog.finished("a", 1)
    assert not backlog.is_full


def test_tables_with_nothing_in_memory_come_first_and_what_is_read_lies_close_together() -> None:
    backlog = Backlog(BacklogLimits(commands=30))
    assert [backlog.add(HOT, n, 1) for n in range(3)] == [True, True, False]
    late = range(10_000, 10_003)
    assert [backlog.add(HEALTHY, n, 1) for n in late] == [True, True, False]
    backlog.finished(HOT, 1)
    assert backlog.wanted() == {2: HOT}
    for _ in range(2):
        backlog.finished(HEALTHY, 1)

    assert backlog.wanted() == {10_002: HEALTHY}


@dataclass
class History:
    """A random history of one partition; what is in memory is done in any order of tables."""

    seed: int
    done: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    read: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - no secret
        roll = self.dice.choice
        self.tables = [f"t{number}" for number in range(roll(range(1, 12)))]
        self.limits = BacklogLimits(
            commands=roll([5, 20, 40, 200]), size=roll([50, 500, 10**9]), tables=roll([3, 8, 50])
        )
        self.backlog = Backlog(self.limits)
        self.memory: dict[str, deque[int]] = {table: deque() for table in self.tables}
        self.sizes: list[int] = []
        self.asked: list[tuple[int, str]] = []

    def read_one(self) -> None:
        if self.backlog.is_full:
            return
        table, size = self.dice.choice(self.tables), self.dice.choice([1, MAX_SIZE])
        table = self.dice.choice([table, self.tables[0]])  # that one is hot
        offset = len(self.sizes)
        self.sizes.append(size)
        self.read[table].append(offset)
        if self.backlog.add(table, offset, size):
            self.memory[table].append(offset)

    def finish_one(self, stuck: set[str]) -> None:
        ready = [table for table in self.tables if self.memory[table] and table not in stuck]
        if ready:
            table = self.dice.choice(ready)
            offset = self.memory[table].popleft()
            self.done[table].append(offset)
            self.backlog.finished(table, self.sizes[offset])

    def read_again(self) -> None:
        """Ask, or bring back what was asked for; a read may end early."""
        if not self.asked:
            self.asked = list(self.backlog.wanted().items())
            offsets = [offset for offset, _ in self.asked]
            assert offsets == sorted(offsets)
            assert not offsets or offsets[-1] - offsets[0] < WINDOW
            return
        for offset, table in self.asked[: self.dice.randint(1, len(self.asked))]:
            if self.backlog.bring_back(table, offset, self.sizes[offset]):
                self.memory[table].append(offset)
        self.asked = []

    def check_bounds(self) -> None:
        held = [offset for offsets in self.memory.values() for offset in offsets]
        tables = sum(bool(offsets) for offsets in self.memory.values())
        assert len(held) <= self.limits.commands + tables
        assert sum(self.sizes[offset] for offset in held) <= self.limits.size + tables * MAX_SIZE

    def work_off(self, stuck: set[str]) -> None:
        left = {table for table in self.tables if table not in stuck}
        for _ in range(20_000):
            if all(self.done[partition] == self.read[partition] for partition in left):
                return
            self.finish_one(stuck)
            self.read_again()
            self.check_bounds()
        raise AssertionError(f"{self.seed}: some tables wait for ever")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_each_tables_order_is_kept_and_none_waits_for_a_stuck_one(seed: int) -> None:
    history = History(seed)
    stuck = set(history.dice.sample(history.tables, history.dice.randrange(len(history.tables))))
    for _ in range(300):
        if history.dice.random() < 0.5:
            history.read_one()
        else:
            history.finish_one(stuck)
        if history.dice.random() < 0.3:
            history.read_again()
        history.check_bounds()
    history.work_off(stuck)
    history.work_off(set())

    assert history.done == history.read
    assert not history.backlog._tables
