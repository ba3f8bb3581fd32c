"""Checks of a table's retention by the savepoint writer, on hand-made timelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.hudi_tables import NOW, HandMade, at, four_commits, snapshot, ticking, warehouse_over
from support.policies import policy_rule
from support.savepoint_removals import keep, removal, remove
from support.stepwise import Killed, Stepwise, killed_at
from tidegate.compute.parallel_map import ThreadMap
from tidegate.events import (
    CommitFlagged,
    Outcome,
    SavepointCreated,
    SavepointRejected,
    SavepointRemoved,
    SavepointsChecked,
    SavepointsCheckRequested,
)
from tidegate.hudi.instant import Action, Instant, InstantState
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.rules import Tier, TierRule
from tidegate.tables.claim import Task
from tidegate.tables.task_numbers import NO_CLAIM
from tidegate.tables.warehouse import Warehouse

EVERY = TierRule(tier=Tier.EVERY_COMMIT, keep=2)
VERSIONS = pytest.mark.parametrize("version", [9, 6])


@dataclass
class Checks:
    """A table and the writer of its savepoints."""

    table: HandMade
    tiers: tuple[TierRule, ...] = (EVERY,)
    adopts: tuple[str, ...] = ()
    max_count: int | None = None
    made: int = field(default=0)

    def command(self, **fields: object) -> SavepointsCheckRequested:
        self.made += 1
        given: dict[str, object] = {
            "table": f"lake.sales.{self.table.path.name}",
            "location": self.table.location,
        }
        given |= {"occurred_at": NOW + timedelta(hours=1), "source": "coordinator"}
        given |= {"caused_by": "a commit", "attempt": self.made}
        return SavepointsCheckRequested.model_validate(given | fields)

    def run(
        self,
        command: SavepointsCheckRequested | None = None,
        warehouse: Warehouse | None = None,
        clock: Callable[[], datetime] | None = None,
        task: Task | None = None,
    ) -> list[Outcome]:
        rule = policy_rule(
            *self.tiers, name="sales", tables="lake.*", adopts=self.adopts, max_count=self.max_count
        )
        writer = SavepointWriter(
            warehouse or warehouse_over(self.table.path.parent),
            ThreadMap(),
            clock or ticking(NOW + timedelta(minutes=30)),
            rules=(rule,),
        )
        command = command or self.command()
        claim = writer.claim(command, task) if task else NO_CLAIM
        return list(writer.execute(command, claim))

    def there(self) -> list[str]:
        return sorted(path.name[:17] for path in self.table.timeline.glob("[0-9]*.savepoint"))


def every(keep_: int) -> tuple[TierRule, ...]:
    return (TierRule(tier=Tier.EVERY_COMMIT, keep=keep_),)


def last(outcomes: list[Outcome]) -> SavepointsChecked:
    assert isinstance(outcomes[-1], SavepointsChecked), outcomes
    return outcomes[-1]


@VERSIONS
def test_the_newest_commit_is_saved_first_then_every_commit_and_the_oldest_goes(
    tmp_path: Path, version: int
) -> None:
    checks = Checks(four_commits(tmp_path / "orders", version))
    created, done = checks.run()
    assert isinstance(created, SavepointCreated)
    assert (created.instant, created.policy, created.tiers) == (at(4), "sales", ("every-commit",))
    assert isinstance(done, SavepointsChecked)
    assert (done.made, done.removed, done.savepoints, done.next_check) == (1, 0, 1, None)
    for minute in (5, 6):
        checks.table.commit(at(minute), at(minute - 1))

    outcomes = checks.run()

    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [SavepointCreated, SavepointCreated, SavepointRemoved, SavepointsChecked]
    assert checks.there() == [at(5), at(6)]
    assert {outcome.caused_by for outcome in outcomes} == {outcomes[-1].caused_by}
    assert len({outcome.event_id for outcome in outcomes}) == 4


def test_a_check_that_is_repeated_gives_its_savepoint_again_and_changes_nothing(
    tmp_path: Path,
) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9))
    command = checks.command()
    task = Task(1, "the task", command.table, "deployment")
    created, _ = checks.run(command, task=task)
    before = snapshot(tmp_path)

    again, done = checks.run(command, task=task)

    assert isinstance(again, SavepointCreated)
    assert again.event_id == created.event_id
    assert (again.instant, again.already_there) == (at(4), False)
    assert last([done]).made == 1
    assert snapshot(tmp_path) == before
    assert last(checks.run()).made == 0  # another check did not make it


def test_one_check_makes_and_removes_a_few_oldest_first_and_goes_on_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.savepoints.executor._AT_ONCE", 2)
    checks = Checks(four_commits(tmp_path / "orders", 9), every(9))
    checks.run()
    for minute in range(5, 10):
        checks.table.commit(at(minute), at(minute - 1))

    for made, left in ((2, True), (2, True), (1, False)):
        done = last(checks.run())
        assert (done.made, done.next_check is not None) == (made, left)
        if done.next_check is not None:
            assert done.next_check - done.occurred_at == timedelta(minutes=1)
    assert checks.there() == [at(minute) for minute in range(4, 10)]

    checks.tiers = every(1)
    there = [(last(checks.run()).removed, checks.there()) for _ in range(4)]
    assert there == [
        (2, [at(6), at(7), at(8), at(9)]),
        (2, [at(8), at(9)]),
        (1, [at(9)]),
        (0, [at(9)]),
    ]


@VERSIONS
def test_killed_at_any_step_and_repeated_the_timeline_is_the_same(
    tmp_path: Path, version: int
) -> None:
    for step in range(1, 40):
        checks = Checks(four_commits(tmp_path / f"{step}/orders", version))
        checks.run()
        for minute in (5, 6):
            checks.table.commit(at(minute), at(minute - 1))
        command = checks.command()
        task = Task(1, "the task", command.table, "deployment")
        try:
            checks.run(command, Stepwise(tmp_path / f"{step}", killed_at(step)), task=task)
        except Killed:
            outcomes = checks.run(command, task=task)
        else:
            break
        created = [o.instant for o in outcomes if isinstance(o, SavepointCreated)]
        removed = [o.instant for o in outcomes if isinstance(o, SavepointRemoved)]
        # nothing was published before the last step
        assert (sorted(created), removed) == ([at(5), at(6)], [at(4)]), step
        assert (last(outcomes).made, last(outcomes).removed) == (2, 1), step
        assert checks.there() == [at(5), at(6)], step
        assert not list(checks.table.timeline.glob(f"{at(4)}.savepoint*")), step
    else:
        pytest.fail("a check takes fewer steps")
    assert step > 8


def test_a_commit_whose_files_are_gone_is_refused_and_the_next_one_of_the_period_is_saved(
    tmp_path: Path,
) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), (TierRule(tier=Tier.DAILY, keep=3),))
    keep(checks.table, 1, "x", policy="older")
    checks.adopts = ("older",)
    checks.table.commit(f"20260302{at(1)[8:]}", at(4))
    checks.table.commit(f"20260302{at(2)[8:]}", f"20260302{at(1)[8:]}")
    for path in checks.table.path.rglob(f"*_20260302{at(1)[8:]}.parquet"):
        path.unlink()

    refused, created, _ = checks.run()

    assert isinstance(refused, SavepointRejected)
    assert refused.reason == "missing-files"
    assert isinstance(created, SavepointCreated)
    assert created.instant == f"20260302{at(2)[8:]}"


def test_what_hudi_has_cleaned_is_not_requested(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), every(9))
    keep(checks.table, 1, "every-commit")
    checks.table.clean(at(5), bound=at(3))

    outcomes = checks.run()

    assert [type(outcome) for outcome in outcomes] == [SavepointCreated] * 2 + [SavepointsChecked]
    assert checks.there() == [at(1), at(3), at(4)]


def test_the_operation_is_read_from_the_commit_itself(tmp_path: Path) -> None:
    table = four_commits(tmp_path / "orders", 9)
    table.schedule(at(5), {"p0": "g0"})
    table.compact(at(5), {"p0": "g0"}, at(4))
    tier = TierRule(tier=Tier.BEFORE, operations=("compact",), keep=1)

    created, _ = Checks(table, (tier,)).run()

    assert isinstance(created, SavepointCreated)
    assert (created.instant, created.tiers) == (at(4), ("before",))


def test_a_savepoint_that_serves_one_more_tier_later_is_kept_for_it(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), (EVERY,))
    checks.run()
    tier = TierRule(tier=Tier.AFTER, operations=("x",), keep=1)
    before = TierRule(tier=Tier.BEFORE, operations=("compact",), keep=1)
    checks.table.schedule(at(5), {"p0": "g0"})
    checks.table.compact(at(5), {"p0": "g0"}, at(4))
    checks.tiers = (TierRule(tier=Tier.EVERY_COMMIT, keep=1), tier, before)

    created, *_ = checks.run()
    assert isinstance(created, SavepointCreated)
    assert (created.instant, created.already_there) == (at(4), True)
    assert created.tiers == ("every-commit", "before")

    assert checks.there() == [at(4), at(5)]
    assert last(checks.run()).made == 0


@VERSIONS
def test_what_a_person_removed_is_not_made_again(tmp_path: Path, version: int) -> None:
    checks = Checks(four_commits(tmp_path / "orders", version))
    checks.run()
    assert isinstance(remove(removal(checks.table, 4)), SavepointRemoved)

    assert last(checks.run()).made == 0
    checks.table.commit(at(5), at(4))
    assert last(checks.run()).made == 1
    assert checks.there() == [at(5)]


def test_people_s_savepoints_stay_and_unowned_ones_are_named(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), every(1))
    keep(checks.table, 1, policy=None)
    keep(checks.table, 2, "daily", policy="older")
    keep(checks.table, 3, policy=None, lifetime_seconds=86_400)

    done = last(checks.run())

    assert checks.there() == [at(1), at(2), at(3), at(4)]
    assert done.unowned == (at(2),)
    assert done.next_check is not None
    checks.adopts = ("older",)
    assert last(checks.run()).removed == 1
    assert checks.there() == [at(1), at(3), at(4)]


@pytest.mark.parametrize("ahead", ["the broker's", "the writer's"])
def test_one_clock_that_is_ahead_ends_no_lifetime(tmp_path: Path, ahead: str) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9))
    keep(checks.table, 2, policy=None, lifetime_seconds=86_400)
    jumped = NOW + timedelta(days=9_000)
    command = checks.command(**({"occurred_at": jumped} if ahead == "the broker's" else {}))
    clock = ticking(jumped) if ahead == "the writer's" else None

    assert last(checks.run(command, clock=clock)).removed == 0
    assert last(checks.run(checks.command(occurred_at=jumped), clock=ticking(jumped))).removed == 1


def test_what_a_restore_may_need_or_a_person_also_requested_stays(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), every(9))
    keep(checks.table, 1, "every-commit")
    checks.run()
    keep(checks.table, 2, policy=None, comment="mine", event_id="mine")
    checks.tiers = every(1)

    checks.run(checks.command(wanted=(at(3),)))
    assert checks.there() == [at(2), at(3), at(4)]
    checks.run()
    assert checks.there() == [at(2), at(4)]


def test_nothing_is_made_or_removed_during_a_restore(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), every(1))
    keep(checks.table, 1, "every-commit")
    keep(checks.table, 3, "every-commit")
    checks.table.put(Instant(at(9), Action.RESTORE, InstantState.REQUESTED))

    (done,) = checks.run()

    assert (last([done]).made, checks.there()) == (0, [at(1), at(3)])
    assert last([done]).next_check is not None


def test_a_maximum_is_an_outcome_that_names_the_commit(tmp_path: Path) -> None:
    tier = TierRule(tier=Tier.EVERY_COMMIT, lifetime=timedelta(days=9))
    checks = Checks(four_commits(tmp_path / "orders", 9), (tier,), max_count=1)
    checks.run()
    checks.table.commit(at(5), at(4))

    flagged, _ = checks.run()

    assert isinstance(flagged, CommitFlagged)
    assert (flagged.instant, flagged.flag) == (at(5), "savepoints-at-maximum")
    assert checks.there() == [at(4)]


def test_a_published_commit_that_is_not_on_the_timeline_is_flagged_once(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), ())

    flagged, done = checks.run(checks.command(commits=(at(3), at(7), at(8))))

    assert isinstance(flagged, CommitFlagged)
    assert (flagged.instant, flagged.flag) == (at(7), "not-on-timeline")
    assert f"{at(7)}, {at(8)}. " in flagged.message
    assert isinstance(done, SavepointsChecked)
    assert done.commits == (at(3), at(7), at(8))


@pytest.mark.parametrize(
    ("minute", "undone"),
    [pytest.param(0, None, id="archived"), pytest.param(7, 8, id="a later restore undid it")],
)
def test_a_published_commit_that_the_timeline_explains_is_not_flagged(
    tmp_path: Path, minute: int, undone: int | None
) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), ())
    if undone is not None:
        restored = Instant(at(undone), Action.RESTORE, InstantState.COMPLETED, at(undone + 1))
        checks.table.put(restored)

    assert [type(it) for it in checks.run(checks.command(commits=(at(minute),)))] == [
        SavepointsChecked
    ]


def test_a_condemned_commit_is_answered_from_the_timeline(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), ())
    for minute in (1, 2, 4):
        keep(checks.table, minute, policy=None)

    done = last(checks.run(checks.command(condemned=at(3))))

    assert (done.condemned, done.newest_before, done.later) == (at(3), at(2), (at(4),))


def test_once_a_day_a_check_measures_what_savepoints_pin(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9), ())
    for minute in (1, 2):
        keep(checks.table, minute, policy=None)
    pinned = [p for n in (1, 2) for p in checks.table.path.rglob(f"*_{at(n)}.parquet")]

    done = last(checks.run(checks.command(measure=True)))

    assert (done.pinned_files, done.pinned_bytes) == (
        len(pinned),
        sum(path.stat().st_size for path in pinned),
    )
    assert done.oldest_at is not None
    assert last(checks.run()).pinned_files is None


def test_a_savepoint_of_no_time_that_is_known_stops_nothing(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "orders", 9))
    keep(checks.table, 1, policy=None)
    (path,) = checks.table.timeline.glob(f"{at(1)}*.savepoint")
    metadata = SavepointMetadata.decode(path.read_bytes())
    strange = SavepointMetadata(metadata.by, 2**62, metadata.comment, metadata.files)
    path.write_bytes(strange.encode())

    assert last(checks.run()).made == 1


def test_a_table_outside_the_roots_is_refused(tmp_path: Path) -> None:
    checks = Checks(four_commits(tmp_path / "elsewhere/orders", 9))
    (tmp_path / "lake").mkdir()

    (refused,) = checks.run(warehouse=warehouse_over(tmp_path / "lake"))

    assert isinstance(refused, SavepointRejected)
    assert refused.reason == "outside-warehouse"
