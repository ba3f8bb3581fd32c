"""Random histories of workers with the real claim, on a real directory; each rule is needed.

Workers die and stall at every step, tasks are repeated, copied and read again from the beginning,
and two names mean one location. A check and the step behind it are one step here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from support.acid import NOON
from support.stepwise import Killed, Stepwise
from tidegate.errors import TransientError
from tidegate.events import DirectoriesCleaned, Outcome
from tidegate.tables.claim import HIVE, AlreadyDone, Claim, NumberTaken, Task
from tidegate.tables.refusal import Refused
from tidegate.tables.task_numbers import Overtaken, TaskNumbers

STEPS = 120
VACUUMS = ("v1", "v2", "v3")
NAMES = ("hive.sales.a", "hive.sales.b")


class Violation(Exception):  # noqa: N818 - states a finding
    """A property does not hold."""


class AnyNumbers(TaskNumbers):
    """Compare no numbers."""

    def newest(self) -> Mapping[tuple[int, str], str]:
        return self.found()


class WithoutNumbers(Claim):
    """Leave out: a lower number does nothing."""

    newest = AnyNumbers.newest

    @property
    def numbers(self) -> TaskNumbers:
        return AnyNumbers(self.warehouse, self.folder, self.number)


class WithoutChecks(Claim):
    """Leave out: list the claims again before each step."""

    def check(self) -> None:
        pass


class WithoutOwner(Claim):
    """Leave out: the first name keeps the location."""

    def _require_owner(self, folder: str) -> None:
        pass


class WithoutOutcomes(Claim):
    """Leave out: the last outcome is recorded before it is published."""

    def finish(self, outcomes: list[Outcome]) -> list[Outcome]:  # type: ignore[override]
        return outcomes


class Issued(NamedTuple):
    """A task: `clean` or `undo` of a vacuum, or `stop`."""

    task: Task
    kind: str
    of: str


class History:
    """One table at one location, its tasks by name, and what people may rely on."""

    def __init__(self, seed: int, root: Path, rules: type[Claim]) -> None:
        self.random, self.rules, self.is_calm = random.Random(seed), rules, False  # noqa: S311
        (root / "t").mkdir(parents=True)
        self.location = str(root / "t")
        self.warehouse = Stepwise(root, self._may_die)
        self.issued: dict[str, list[Issued]] = {name: [] for name in NAMES}
        self.under_way: dict[str, Issued] = {}
        self.there, self.undone = dict.fromkeys(VACUUMS, 2), set[str]()
        self.published: dict[str, Outcome] = {}
        self.asked, self.held, self.refused = set[str](), set[str](), set[str]()
        self.acted: tuple[int, str] | None = None
        self.workers: list[Iterator[None]] = []

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choice((self._issue, self._deliver, *[self._step] * 4))()
        self.is_calm = True
        for name in NAMES:
            for task in self.issued[name]:
                for _ in self._work(task):
                    pass
        for task in self.under_way.values():
            require(task.task.id in self.published, f"{task} has no last outcome")

    def _may_die(self, _: int) -> None:
        if not self.is_calm and self.random.random() < 0.05:
            raise Killed

    def _issue(self) -> None:
        """The coordinator: one task at a time for a name, but for a stop."""
        name = self.random.choice(NAMES)
        number, of = len(self.issued[name]) + 1, self.random.choice(VACUUMS)
        kind = self.random.choice(("clean", "clean", "clean", "undo", "stop"))
        if kind == "clean" and (of in self.undone or name in self.asked):
            return
        if kind != "stop" and name in self.under_way:
            return
        issued = Issued(Task(number, f"{name}-{number}", name, "cluster/tidegate"), kind, of)
        self.issued[name].append(issued)
        if kind == "stop":  # a person asks to hold the table: no cleaning is issued from here on
            self.asked.add(name)
        else:
            self.under_way[name] = issued

    def _deliver(self) -> None:
        """A new task, a repeat, a copy, or one of a replay."""
        if issued := self.issued[self.random.choice(NAMES)]:
            self.workers.append(self._work(self.random.choice(issued[-2:] * 3 + issued)))

    def _step(self) -> None:
        if not self.workers:
            return
        worker = self.random.choice(self.workers)
        if self.random.random() < 0.05 or next(worker, "over") == "over":
            self.workers.remove(worker)

    def _work(self, issued: Issued) -> Iterator[None]:
        steps = 0
        with suppress(Overtaken, Killed, TransientError):
            try:
                claim = self.rules.take(self.warehouse, self.location, HIVE, issued.task)
                yield
                while self._is_left(issued):
                    claim.check()
                    self._act(issued)
                    steps += 1
                    yield
                outcomes = claim.finish([outcome_of(issued.task, steps)])
            except AlreadyDone as done:
                outcomes = done.outcomes
            except (NumberTaken, Refused):
                self.refused.add(issued.task.id)
                outcomes = [outcome_of(issued.task, 0)]
            yield
            self._publish(issued, outcomes[0])

    def _is_left(self, issued: Issued) -> bool:
        left = self.there[issued.of]
        return left > 0 if issued.kind == "clean" else issued.kind == "undo" and left < 2

    def _act(self, issued: Issued) -> None:
        task, kind, of = issued
        number, name = self.acted or (0, task.table)
        require(task.table == name, f"{task.table} acts where {name} did")
        require(task.number >= number, f"task {task.number} acts after task {number}")
        require(task.id not in self.published, "a task acts after its last outcome")
        self.acted = (task.number, task.table)
        if kind == "clean":
            require(task.table not in self.held, "removed although the hold is confirmed")
            require(of not in self.undone, "what was undone is repeated")
            self.there[of] -= 1
        else:
            self.undone.add(of)
            self.there[of] += 1

    def _publish(self, issued: Issued, outcome: Outcome) -> None:
        first = self.published.setdefault(issued.task.id, outcome)
        require(first == outcome, f"{issued} has two outcomes")
        name = issued.task.table
        now = self.under_way.get(name)
        if issued.kind == "stop" and issued.task.id not in self.refused:
            self.held.add(name)
        if now is not None and (now == issued or self._is_stopped(now, issued)):
            del self.under_way[name]

    @staticmethod
    def _is_stopped(task: Issued, by: Issued) -> bool:
        return by.kind == "stop" and task.task.number < by.task.number


def outcome_of(task: Task, steps: int) -> Outcome:
    fields = {"table": task.table, "location": "/wh/t", "occurred_at": NOON, "source": "cleaner"}
    more = {"caused_by": task.id, "directories": (), "files": max(0, steps), "bytes": 0}
    return DirectoriesCleaned.model_validate(fields | more | {"duration_ms": 1})


def require(condition: object, message: str) -> None:
    if not condition:
        raise Violation(message)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(40), id="some"),
        pytest.param(range(40, 3000), id="many", marks=pytest.mark.full),
    ],
)
def test_no_history_breaks_a_property(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        History(seed, tmp_path / str(seed), Claim).run()


@pytest.mark.parametrize("rules", [WithoutNumbers, WithoutChecks, WithoutOwner, WithoutOutcomes])
def test_with_any_rule_left_out_a_history_breaks_one(tmp_path: Path, rules: type[Claim]) -> None:
    def histories() -> None:
        for seed in range(500):
            History(seed, tmp_path / str(seed), rules).run()

    with pytest.raises(Violation):
        histories()
