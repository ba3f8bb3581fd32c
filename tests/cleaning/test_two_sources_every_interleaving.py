"""Every order of the steps of a bounded world in which one of the two sources is wrong.

The events may lie: a writer forges the end of every reader, or publishes a compaction too early, or
the bridge takes a reader for ended that has locked another table first. The Metastore may be blind:
restored from a backup, it has forgotten who reads. No reader is hurt while one of the two is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from support.interleavings import Model, Rules, Scenario, Violation
from support.interleavings.bridge import Bridge, _release, published
from support.interleavings.cleaner import CleanerOfWorlds, _listed
from support.interleavings.explore import Step
from support.interleavings.metastore import high_water_mark, locked, open_txns, snapshot_of
from support.interleavings.scenario import LOCATION, PARTITION
from support.interleavings.world import World
from tidegate.cleaning.confirmation import Answers, Removal, judge
from tidegate.events import CleaningReleased, VacuumFinished
from tidegate.hive_metastore.values import HeldTables, Holds, Transactions
from tidegate.tables.refusal import Refused

ONE_BY_ONE = Scenario(4, ("minor",), ("one by one",))
LIES = Scenario(4, ("minor",), ("table", "partition"), faults=1, kinds_of_faults=frozenset())
WORLDS = (
    ONE_BY_ONE,
    LIES,
    replace(LIES, hive=3, readers=("table",)),
    replace(LIES, vacuums=("minor", "major"), readers=("table",)),
    replace(LIES, readers=("one by one",), writer="deletes"),
    replace(LIES, readers=("table",), writer="overwrites"),
    replace(LIES, readers=("database",), dies=0),
)


class Confirming(CleanerOfWorlds):
    """Asks the Metastore at the moment of acting, with the real decision."""

    def __init__(self, model: TwoSources) -> None:
        super().__init__(model)
        self._of, self._bridge = model, Bridge(model)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """A cleaning that is contradicted waits."""
        for step in super().steps(world):
            if step[0] != "cleaner plans" or self._is_confirmed(world):
                yield step

    def _is_confirmed(self, world: World) -> bool:
        command = self._of.events[world.commands[0]]
        assert isinstance(command, CleaningReleased)
        plan = self._of.rules.plan([_listed(directory) for directory in world.directories], command)
        try:
            judge(Removal.of(command, plan), self._answers(world))
        except Refused:
            return False
        return True

    def _answers(self, world: World) -> Answers:
        opened = dict.fromkeys(open_txns(world, self._of.scenario), 0)
        held = HeldTables([self._bridge._lock(world, index) for index in locked(world)])
        if self._of.is_blind:
            opened, held = {}, HeldTables(())
        begun = ((n, v) for n, v in enumerate(world.vacuums) if v.phase not in {"new", "none"})
        return Answers(
            LOCATION,
            f"{LOCATION}/{PARTITION}",
            tuple(self._bridge._queued(number, vacuum) for number, vacuum in begun),
            held,
            Transactions(high_water_mark(world), opened),
            snapshot_of(world, self._of.scenario).write_ids,
        )


@dataclass(eq=False)
class TwoSources(Model):
    """A world with a liar, and with the second source unless `has_second` is false."""

    has_second: bool = True
    is_blind: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.has_second:
            self._cleaner = Confirming(self)

    def _steps(self, world: World) -> Iterator[Step[World]]:
        yield from super()._steps(world)
        if world.faults and not self._gate.reads(world):
            yield from self._lies(world._replace(faults=world.faults - 1))

    def _lies(self, world: World) -> Iterator[Step[World]]:
        known = [self.events[number] for number in world.published]
        for event in known:
            if isinstance(event, VacuumFinished):
                ends = [_release(lock.lock_id, None) for lock in event.locks]
                ends += [_release(None, txn) for txn in event.open_transactions]
                yield "a writer forges every end", True, published(world, ends, self)
        for index, vacuum in enumerate(world.vacuums):
            if vacuum.phase == "written":
                early = self._bridge._vacuum(world, index, HeldTables(()), Transactions(0))
                end = _release(0, vacuum.txn or None)
                yield "a writer is early", True, published(world, [end, early], self)


def nothing(*_: object) -> Holds:
    """The events name no reader."""
    return (), ()


@pytest.mark.parametrize("scenario", WORLDS, ids=lambda scenario: scenario.title)
def test_one_liar_hurts_no_reader_and_every_vacuum_is_cleaned(scenario: Scenario) -> None:
    print(TwoSources(scenario).run(), scenario.title)  # noqa: T201 - how much was looked at


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(ONE_BY_ONE, id="a bridge that is wrong about ends"),
        pytest.param(LIES, id="a writer that lies"),
    ],
)
def test_on_the_events_alone_a_reader_is_hurt(scenario: Scenario) -> None:
    with pytest.raises(Violation, match="reader"):
        TwoSources(scenario, has_second=False).run()


def test_on_the_word_of_a_metastore_that_forgot_its_readers_alone_a_reader_is_hurt() -> None:
    honest = replace(LIES, faults=0)

    print(TwoSources(honest, is_blind=True).run())  # noqa: T201 - the events hold it back
    with pytest.raises(Violation, match="reader"):
        TwoSources(honest, Rules(holds_of=nothing), is_blind=True).run()
    with pytest.raises(Violation, match="reader"):
        TwoSources(LIES, is_blind=True).run()


def test_where_the_events_name_no_reader_the_metastore_holds_it_back() -> None:
    print(TwoSources(LIES, Rules(holds_of=nothing)).run())  # noqa: T201 - how much was looked at
