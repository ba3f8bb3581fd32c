"""The sentences of docs/savepoint-policies.md: what is due, and what may go. No table, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.budget import examples
from support.policies import policy_rule
from tidegate.events import CommitCompleted
from tidegate.hudi.instant import moment_of
from tidegate.savepoints.retention import Check, Commit, Savepoint, check
from tidegate.savepoints.rules import SavepointRule, Tier, TierRule
from tidegate.savepoints.simulation import simulated

START = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)  # a Monday
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def instant(at: datetime) -> str:
    return f"{at:%Y%m%d%H%M%S}000"


def commit(at: datetime, operation: str | None = None, **fields: Any) -> Commit:  # noqa: ANN401
    return Commit(instant(at), at, operation=operation, **fields)


def savepoint(at: datetime, since: datetime, *mark: Any, **fields: Any) -> Savepoint:  # noqa: ANN401
    return Savepoint(instant(at), at, since, *mark, **fields)


def rule(*tiers: TierRule, **fields: Any) -> SavepointRule:  # noqa: ANN401 - any field
    return policy_rule(*tiers, name="sales", **fields)


HOURLY = TierRule(tier=Tier.HOURLY, keep=24)
DAILY = TierRule(tier=Tier.DAILY, keep=7)
EVERY = TierRule(tier=Tier.EVERY_COMMIT, keep=5)
DELETES = TierRule(tier=Tier.BEFORE, operations=("delete*",), lifetime=14 * DAY)


@dataclass
class Table:
    """A table whose checks are carried out at once."""

    rule: SavepointRule | None
    commits: list[Commit] = field(default_factory=list[Commit])
    savepoints: list[Savepoint] = field(default_factory=list[Savepoint])
    held: dict[str, datetime | None] = field(default_factory=dict[str, datetime | None])
    last: Check = field(default_factory=Check)

    def commit(
        self, at: datetime, operation: str | None = None, *, now: datetime | None = None
    ) -> None:
        """A commit of this instant, published at `now`."""
        self.commits.append(commit(at, operation))
        self.check(now or at)

    def check(self, now: datetime) -> None:
        made = set[str]()
        name = self.rule.policy if self.rule else None
        while found := self.found(now).due:  # as the writer does: one, then it reads again
            at, tiers = next(iter(found.items()))
            new = Savepoint(at, moment_of(at, UTC), now, name)
            known = next((s for s in self.savepoints if s.instant == at), new)
            self.savepoints = [s for s in self.savepoints if s is not known]
            self.savepoints.append(replace(known, tiers=(*known.tiers, *tiers)))
            made.add(at)
        self.last = self.found(now)
        gone = set(self.last.removable)
        assert not gone & made, "a check makes nothing that it removes"
        self.savepoints = [saved for saved in self.savepoints if saved.instant not in gone]

    def found(self, now: datetime) -> Check:
        return check(self.rule, self.savepoints, self.commits, now, held=self.held)

    def of(self, *, person: bool = False) -> list[str]:
        """The instants of the policy's savepoints, or of people's."""
        return sorted(s.instant for s in self.savepoints if (s.policy is None) is person)


def every(step: timedelta, count: int) -> list[datetime]:
    return [START + number * step for number in range(count)]


def test_a_period_is_the_calendar_s_by_the_commit_s_instant_and_its_first_commit_is_saved() -> None:
    table = Table(rule(HOURLY))
    for at in every(timedelta(minutes=20), 9):  # from 00:30 on
        table.commit(at)

    assert [saved[8:12] for saved in table.of()] == ["0030", "0110", "0210", "0310"]


def test_a_period_without_commits_has_no_savepoint_and_counts_for_nothing() -> None:
    table = Table(rule(TierRule(tier=Tier.HOURLY, keep=2)))
    for hours in (0, 1, 30):
        table.commit(START + hours * HOUR)

    assert table.of() == [instant(START + HOUR), instant(START + 30 * HOUR)]


def test_tiers_are_rotated_as_backups_are() -> None:
    tiers = (HOURLY, DAILY, TierRule(tier=Tier.WEEKLY, keep=4), TierRule(tier=Tier.MONTHLY, keep=9))
    table = Table(rule(*tiers))
    for at in every(6 * HOUR, 4 * 65):
        table.commit(at)

    last = START + 6 * HOUR * (4 * 65 - 1)
    found = set(table.of())
    assert {instant(last - n * 6 * HOUR) for n in range(24)} <= found
    assert {f"{last - n * DAY:%Y%m%d}" for n in range(7)} <= {saved[:8] for saved in found}
    assert {"202603", "202604", "202605"} == {saved[:6] for saved in found}
    # 24 hours, 7 days of which the last is among them, 4 Mondays, and three firsts of a month
    assert len(found) <= 24 + 7 + 4 + 3


def test_one_savepoint_serves_several_tiers_and_one_that_was_made_before_serves_a_new_tier() -> (
    None
):
    table = Table(rule(DAILY))
    table.commit(START)
    table.rule = rule(DAILY, TierRule(tier=Tier.WEEKLY, keep=1))

    assert not table.found(START).due
    (only,) = Table(rule(HOURLY, DAILY), [commit(START)]).found(START).due.values()
    assert only == (Tier.HOURLY, Tier.DAILY)


def test_at_the_first_run_the_newest_commit_gets_one_and_the_policy_does_not_reach_back() -> None:
    table = Table(rule(EVERY, HOURLY), [commit(at, "delete") for at in every(DAY, 4)])

    found = table.found(START + 4 * DAY)

    assert found.due == {instant(START + 3 * DAY): (Tier.EVERY_COMMIT, Tier.HOURLY)}


def test_a_policy_that_begins_within_a_period_saves_the_newest_commit() -> None:
    table = Table(rule(HOURLY), [commit(START + n * timedelta(minutes=9)) for n in range(3)])

    table.check(START + HOUR)

    assert table.of() == [instant(START + timedelta(minutes=18))]


def test_a_period_that_was_missed_is_made_up_for() -> None:
    table = Table(rule(HOURLY))
    table.commit(START)
    table.commits += [commit(START + n * HOUR) for n in (1, 2)]

    table.commit(START + 3 * HOUR)

    assert table.of() == [instant(START + n * HOUR) for n in range(4)]


def test_a_person_s_savepoint_serves_no_tier_and_the_next_commit_gets_the_policy_s() -> None:
    table = Table(rule(DAILY), savepoints=[savepoint(START, START)])
    table.commit(START)
    assert table.of() == []

    table.commit(START + HOUR)

    assert table.of() == [instant(START + HOUR)]
    assert table.of(person=True) == [instant(START)]


def test_a_commit_whose_savepoint_a_person_removed_gets_no_other_one() -> None:
    commits = [commit(START), commit(START + HOUR, removed=True)]
    saved = savepoint(START, START, "sales")

    assert check(rule(EVERY), [saved], commits, START + HOUR).due == {}
    again = [*commits, commit(START + 2 * HOUR)]
    assert len(check(rule(EVERY), [saved], again, START + 2 * HOUR).due) == 1


def test_within_the_gap_before_or_after_a_savepoint_only_operations_make_one() -> None:
    table = Table(rule(EVERY, DELETES, min_gap=HOUR))
    minutes = (0, 30, 61, 59)
    for at in minutes:
        table.commit(START + timedelta(minutes=at), now=START + 2 * HOUR)
    assert table.of() == [instant(START), instant(START + timedelta(minutes=61))]

    table.commit(START + timedelta(minutes=70), "delete")

    assert len(table.of()) == 2  # the commit before it, at 61, has one already
    (due,) = (
        Table(table.rule, table.commits, table.savepoints[:1]).found(START + 2 * HOUR).due.values()
    )
    assert due == (Tier.EVERY_COMMIT, Tier.BEFORE)


def test_every_nth_commit_gets_a_savepoint() -> None:
    table = Table(rule(TierRule(tier=Tier.EVERY_N, commits=3, keep=9)))
    for at in every(HOUR, 10):
        table.commit(at)

    assert table.of() == [instant(START + n * HOUR) for n in (0, 3, 6, 9)]


def test_the_commit_before_an_operation_is_saved_and_the_one_of_an_operation() -> None:
    after = TierRule(tier=Tier.AFTER, operations=("insert_overwrite*",), lifetime=DAY)
    table = Table(rule(DELETES, after))
    for number, operation in enumerate(("upsert", "upsert", "DELETE", "Insert_Overwrite", None)):
        table.commit(START + number * HOUR, operation)

    assert {s.instant: s.tiers for s in table.savepoints} == {
        instant(START + HOUR): (Tier.BEFORE,),
        instant(START + 3 * HOUR): (Tier.AFTER,),
    }


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        pytest.param(Tier.BEFORE, [0, 1, 3], id="before"),
        pytest.param(Tier.AFTER, [1, 2, 4], id="after"),
    ],
)
@pytest.mark.parametrize("seen", [1, 2, 3, 4, 6], ids=lambda seen: f"the first check after {seen}")
def test_operations_that_fall_into_one_check_get_what_they_would_get_one_by_one(
    kind: Tier, there: list[int], seen: int
) -> None:
    tier = TierRule(tier=kind, keep=5, operations=("delete*", "insert_overwrite*"))
    operations = "upsert", "delete", "insert_overwrite", "upsert", "delete", "upsert"
    times = every(HOUR, 6)
    commits = [commit(at, what) for at, what in zip(times, operations, strict=True)]
    table = Table(rule(tier), commits[:seen])
    table.check(times[seen - 1])
    table.commits = commits
    table.check(times[-1])

    assert table.of() == [instant(times[number]) for number in there]


def test_an_operation_that_completes_late_gets_its_savepoint() -> None:
    late = commit(START + HOUR, "delete", completion=instant(START + 5 * HOUR))
    others = commit(START, "upsert"), commit(START + 2 * HOUR), commit(START + 3 * HOUR, "delete")
    table = Table(rule(DELETES), list(others))
    table.check(START + 4 * HOUR)
    table.commits.append(late)
    table.check(START + 5 * HOUR)

    assert table.of() == [instant(START), instant(START + 2 * HOUR)]


def test_an_operation_before_the_tier_s_lifetime_gets_no_savepoint_at_the_first_check() -> None:
    commits = [commit(START, "upsert"), commit(START + HOUR, "delete"), commit(START + 15 * DAY)]

    assert check(rule(DELETES), [], commits, START + 15 * DAY).due == {}


def test_a_commit_that_had_not_completed_is_not_the_one_before() -> None:
    commits = [
        commit(START, "upsert", completion=instant(START)),
        commit(START + HOUR, "upsert", completion=instant(START + 9 * HOUR)),
        commit(START + 2 * HOUR, "delete", completion=instant(START + 3 * HOUR)),
    ]

    (due,) = check(rule(DELETES), [], commits, START).due

    assert due == instant(START)


def test_a_burst_in_one_tier_costs_another_tier_nothing() -> None:
    table = Table(rule(HOURLY, DAILY, DELETES))
    for at in every(DAY, 9):
        table.commit(at)
    days = table.of()
    for number in range(105):
        table.commit(START + 9 * DAY + number * timedelta(minutes=8), "delete")

    assert set(days[-6:]) <= set(table.of())
    assert sum(Tier.BEFORE in saved.tiers for saved in table.savepoints) >= 104


def test_a_late_commit_does_not_become_the_newest() -> None:
    table = Table(rule(TierRule(tier=Tier.EVERY_COMMIT, keep=1)))
    for hours in (1, 2, 3, 5, 4):
        table.commit(START + hours * HOUR)

    assert table.of() == [instant(START + 5 * HOUR)]


@pytest.mark.parametrize("ahead", [2, 20], ids=lambda hours: f"{hours} hours ahead")
def test_a_writer_s_clock_that_is_ahead_ends_no_other_savepoint(ahead: int) -> None:
    table = Table(rule(HOURLY))
    for at in every(HOUR, 30):
        table.commit(at)
    table.commit(START + (30 + ahead) * HOUR, now=START + 30 * HOUR)
    for number in range(30, 40):
        table.commit(START + number * HOUR)

    present = {instant(START + number * HOUR) for number in range(17, 40)}
    assert len(present & set(table.of())) >= 23
    assert len(table.of()) == 24


def test_at_the_first_run_a_clock_that_is_ahead_does_not_stop_the_present_hours() -> None:
    table = Table(rule(HOURLY))
    table.commit(START + 20 * HOUR, now=START)
    for number in range(1, 4):
        table.commit(START + number * HOUR)

    assert table.of()[:3] == [instant(START + number * HOUR) for number in range(1, 4)]


def test_a_lifetime_counts_from_when_the_savepoint_was_made_and_time_alone_ends_it() -> None:
    table = Table(rule(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY)))
    for at in every(HOUR, 3):
        table.commit(at)
    assert table.last.next_check == START + DAY

    table.check(START + DAY)
    assert len(table.of()) == 2
    table.check(START + 365 * DAY)

    # the newest of a tier stays, whatever its age
    assert table.of() == [instant(START + 2 * HOUR)]
    assert table.last.next_check is None


def test_a_maximum_refuses_new_savepoints_and_removes_none() -> None:
    table = Table(rule(TierRule(tier=Tier.EVERY_COMMIT, lifetime=365 * DAY), max_count=5))
    for at in every(HOUR, 7):
        table.commit(at)

    assert table.of() == [instant(START + n * HOUR) for n in range(5)]
    assert list(table.last.withheld) == [instant(START + n * HOUR) for n in (5, 6)]


def test_a_maximum_does_not_stop_a_rotation() -> None:
    table = Table(rule(TierRule(tier=Tier.HOURLY, keep=3), max_count=3))
    for at in every(HOUR, 9):
        table.commit(at)

    assert table.of() == [instant(START + n * HOUR) for n in (6, 7, 8)]


def test_a_rule_that_changes_applies_at_the_next_check() -> None:
    table = Table(rule(HOURLY))
    for at in every(HOUR, 24):
        table.commit(at)

    table.rule = rule(TierRule(tier=Tier.HOURLY, keep=2))
    table.check(START + DAY)

    assert table.of() == [instant(START + n * HOUR) for n in (22, 23)]


def test_the_policy_s_newest_stays_also_when_no_tier_serves_it_any_more() -> None:
    table = Table(rule(DELETES))
    table.commit(START, "upsert")
    table.commit(START + HOUR, "delete")

    table.rule = rule(TierRule(tier=Tier.AFTER, operations=("x",), keep=1))
    table.check(START + 99 * DAY)

    assert table.of() == [instant(START)]


def test_a_savepoint_of_a_policy_that_no_rule_owns_stays_and_is_named() -> None:
    old = savepoint(START - DAY, START - DAY, "orders", ("daily",))
    table = Table(rule(TierRule(tier=Tier.DAILY, keep=1)), savepoints=[old])
    table.commit(START)
    assert (table.last.unowned, old in table.savepoints) == ((old.instant,), True)

    table.rule = rule(TierRule(tier=Tier.DAILY, keep=1), adopts=("orders",))
    table.check(START)

    assert (table.last.unowned, table.of()) == ((), [instant(START)])


def test_a_person_s_savepoint_goes_only_at_the_end_of_its_lifetime() -> None:
    people = [savepoint(START, START), savepoint(START + HOUR, START, lifetime=DAY)]
    table = Table(None, savepoints=people)

    table.check(START + DAY - HOUR)
    assert (len(table.savepoints), table.last.next_check) == (2, START + DAY)
    table.check(START + DAY)

    assert table.of(person=True) == [instant(START)]


def test_a_savepoint_that_a_restore_or_a_person_waits_for_stays_until_then() -> None:
    table = Table(rule(TierRule(tier=Tier.EVERY_COMMIT, keep=1)))
    table.held = {instant(START): START + DAY}
    for at in every(HOUR, 2):
        table.commit(at)
    assert len(table.of()) == 2
    assert table.last.next_check == START + DAY

    table.held = {}
    table.check(START + DAY)

    assert table.of() == [instant(START + HOUR)]


@pytest.mark.parametrize("strange", ["99999999999999", "00000000000000", "20260231250000000"])
def test_instants_that_are_not_times_stop_nothing(strange: str) -> None:
    tiers = [TierRule(tier=tier, keep=2, operations=("x",)) for tier in Tier]
    table = Table(rule(*tiers, min_gap=HOUR))
    table.commits.append(Commit(strange, moment_of(strange, UTC)))

    table.commit(START)

    assert table.of()


def test_a_mark_of_the_last_year_stops_nothing() -> None:
    late = datetime.max.replace(tzinfo=UTC)
    saved = savepoint(START, late, "sales")
    tier = TierRule(tier=Tier.EVERY_COMMIT, lifetime=36_500 * DAY)

    found = check(rule(tier), [saved], [commit(START + HOUR)], START + HOUR)

    assert len(found.due) == 1


def test_two_thousand_savepoints_that_are_kept_forever_are_checked_at_once_and_in_order() -> None:
    tiers = (TierRule(tier=Tier.EVERY_COMMIT), TierRule(tier=Tier.EVERY_N, commits=7), HOURLY)
    forever = rule(*tiers, min_gap=timedelta(minutes=1))
    times = every(HOUR, 2_000)
    saved = [savepoint(at, at, "sales", ("every-commit",)) for at in reversed(times)]
    commits = [commit(at) for at in [*times, times[-1] + HOUR]]

    found = check(forever, saved, commits, times[-1] + HOUR)

    assert [at for at, tiers in found.due.items() if Tier.EVERY_COMMIT in tiers] == [
        commits[-1].instant
    ]
    assert found.removable == {}


@pytest.mark.parametrize("tier", [Tier.HOURLY, Tier.EVERY_COMMIT])
def test_a_savepoint_whose_lifetime_ended_is_not_made_again_though_another_tier_keeps_an_older(
    tier: Tier,
) -> None:
    tiers = (TierRule(tier=tier, lifetime=24 * HOUR), TierRule(tier=Tier.WEEKLY))
    table = Table(rule(*tiers))
    for at in every(HOUR, 40):
        table.commit(at)
        assert (table.found(at).due, table.found(at).removable) == ({}, {})

    assert len(table.of()) == 1 + 24


@st.composite
def rules(draw: st.DrawFn) -> SavepointRule:
    made = tuple(
        TierRule(
            tier=tier,
            keep=draw(st.one_of(st.none(), st.integers(1, 4))),
            lifetime=draw(st.one_of(st.none(), st.integers(1, 480).map(lambda n: n * HOUR))),
            commits=draw(st.integers(2, 5)),
            operations=("delete",),
        )
        for tier in draw(st.lists(st.sampled_from(Tier), min_size=1, max_size=5, unique=True))
    )
    gap = timedelta(minutes=draw(st.sampled_from((0, 0, 30, 600))))
    maximum = draw(st.one_of(st.none(), st.integers(1, 9)))
    return rule(*made, min_gap=gap, max_count=maximum)


@dataclass(frozen=True)
class Step:
    """Time passes, then one thing happens."""

    minutes: int
    what: str
    by: int


STEPS = st.lists(
    st.builds(
        Step,
        minutes=st.sampled_from((0, 1, 20, 60, 60 * 11, 60 * 24, 60 * 24 * 8)),
        what=st.sampled_from(
            (
                *("commit",) * 3,
                "delete",
                "burst",
                "late",
                "ahead",
                "again",
                "remove",
                "person",
                "limited",
                "rule",
                "time",
            )
        ),
        by=st.integers(1, 6),
    ),
    max_size=18,
)


def play(table: Table, steps: list[Step], rules_: list[SavepointRule]) -> Iterator[datetime]:
    """Yield the time after each check."""
    now, known, chosen = START, set[str](), list(rules_)
    for number, step in enumerate(steps):
        now += timedelta(minutes=step.minutes, seconds=1)
        while table.last.next_check and table.last.next_check < now:
            due = table.last.next_check
            table.check(due)
            yield due
        shift = {"late": -step.by * HOUR, "ahead": 7 * step.by * HOUR}.get(step.what, 0 * HOUR)
        times = [
            now + shift + timedelta(seconds=n) for n in range(8 if step.what == "burst" else 1)
        ]
        own = [saved for saved in table.savepoints if saved.policy]
        if step.what == "remove" and own:
            gone = own[step.by % len(own)]
            table.savepoints.remove(gone)
            table.commits = [
                replace(c, removed=c.removed or c.instant == gone.instant) for c in table.commits
            ]
        elif step.what in {"person", "limited"}:
            free = {c.instant for c in table.commits} - {s.instant for s in table.savepoints}
            lifetime = step.by * DAY if step.what == "limited" else None
            for at in sorted(free)[-1:]:
                table.savepoints.append(Savepoint(at, moment_of(at, UTC), now, lifetime=lifetime))
        elif step.what == "rule":
            table.rule = chosen[number % len(chosen)]
        elif step.what not in {"again", "time"}:
            now = max(now, now if shift else times[-1])
            for moment in times:
                if instant(moment) not in known:
                    known.add(instant(moment))
                    operation = "delete" if step.what == "delete" else "upsert"
                    table.commits.append(commit(moment, operation))
                    table.check(now)
        table.check(now)
        yield now


def tier(kind: Tier, **fields: Any) -> TierRule:  # noqa: ANN401 - any field
    return TierRule(tier=kind, commits=2, operations=("delete",), **fields)


def steps(*of: tuple[int, str, int]) -> list[Step]:
    return [Step(*step) for step in of]


ONLY_EVERY = rule(tier(Tier.EVERY_COMMIT))


@settings(max_examples=examples(60), deadline=None)
@example(
    first=ONLY_EVERY,
    others=[ONLY_EVERY, rule(tier(Tier.EVERY_COMMIT), tier(Tier.EVERY_N)), ONLY_EVERY],
    steps=steps(*[(0, "commit", 1)] * 5, (0, "ahead", 1), (0, "commit", 1), (0, "rule", 1)),
)
@example(
    first=rule(
        tier(Tier.DAILY),
        tier(Tier.EVERY_COMMIT, keep=1),
        tier(Tier.EVERY_N),
        tier(Tier.HOURLY, lifetime=HOUR),
    ),
    others=[ONLY_EVERY],
    steps=steps(
        *((0, "commit", 1), (0, "ahead", 1), (60, "commit", 1)),
        *((20, "commit", 1), (20, "commit", 1), (20, "again", 1)),
    ),
)
@example(
    first=rule(
        tier(Tier.DAILY),
        tier(Tier.EVERY_COMMIT, keep=2, lifetime=9 * DAY + HOUR),
        tier(Tier.EVERY_N),
        tier(Tier.HOURLY, lifetime=HOUR),
        min_gap=timedelta(minutes=30),
    ),
    others=[ONLY_EVERY],
    steps=steps(
        *((0, "commit", 1), (0, "ahead", 4), (1440, "commit", 1)),
        *((11520, "commit", 1), (60, "again", 1)),
    ),
)
@given(first=rules(), others=st.lists(rules(), min_size=1, max_size=3), steps=STEPS)
def test_after_each_step_the_timeline_is_what_the_function_says_and_a_promise_is_held(
    first: SavepointRule, others: list[SavepointRule], steps: list[Step]
) -> None:
    table, before = Table(first), list[Savepoint]()
    for now in play(table, steps, others):
        again = table.found(now)
        # a repeated check finds nothing to do, in any order of what it reads
        assert (again.due, again.removable) == ({}, {})
        turned = check(table.rule, table.savepoints[::-1], table.commits[::-1], now)
        assert turned == again
        assert list(turned.withheld) == list(again.withheld)
        assert table.rule is not None
        own = sorted((s for s in table.savepoints if s.policy), key=lambda saved: saved.instant)
        if table.rule.max_count is None:
            assert len(again.withheld) == 0
        _holds_promises(table, own, before, now)
        # nothing of a person goes before its time
        for saved in before:
            if saved.policy is None and (not saved.lifetime or saved.since + saved.lifetime > now):
                assert saved in table.savepoints
        before = list(table.savepoints)


def _holds_promises(
    table: Table, own: list[Savepoint], before: list[Savepoint], now: datetime
) -> None:
    """What stood before and is gone now, no tier of the rule still promised; nor by hand."""
    assert table.rule is not None
    by_hand = {commit.instant for commit in table.commits if commit.removed}
    left = {saved.instant for saved in own}
    gone = [s for s in before if s.policy and s.instant not in left | by_hand]
    for saved in gone:
        for tier in table.rule.tiers:
            everything = sorted([*own, *gone], key=lambda s: s.instant)
            serving = [
                s
                for s in everything
                if tier.tier in s.tiers or tier.tier not in {Tier.BEFORE, Tier.AFTER, Tier.EVERY_N}
            ]
            if saved not in serving:
                continue
            newer = [s for s in serving if s.instant > saved.instant]
            lived = tier.lifetime is not None and saved.since + tier.lifetime <= now
            of_period = {Tier.HOURLY: 10, Tier.DAILY: 8, Tier.MONTHLY: 6}.get(tier.tier)
            if of_period:
                same = [s for s in serving if s.instant[:of_period] == saved.instant[:of_period]]
                if same[0] is not saved:
                    continue
                newer_periods = {s.instant[:of_period] for s in newer} - {saved.instant[:of_period]}
                assert newer, "the newest of a tier"
                assert lived or (tier.keep and len(newer_periods) >= tier.keep)
            elif tier.tier is not Tier.WEEKLY:
                assert newer, "the newest of a tier"
                assert lived or (tier.keep and len(newer) >= tier.keep)


@settings(max_examples=examples(30), deadline=None)
@given(chosen=rules(), steps=STEPS)
def test_a_simulation_of_the_same_history_says_the_same(
    chosen: SavepointRule, steps: list[Step]
) -> None:
    only = [s for s in steps if s.what in {"commit", "delete", "late", "ahead", "again", "time"}]
    table = Table(chosen)
    commits, seen = list[tuple[CommitCompleted, datetime]](), 0
    now = START
    for now in play(table, only, [chosen]):
        for commit in table.commits[seen:]:
            fields = {"table": "lake.sales.orders", "location": "/l", "occurred_at": now}
            fields |= {"source": "w", "action": "commit"}
            fields |= {"instant": commit.instant, "operation": commit.operation}
            commits.append((CommitCompleted.model_validate(fields), now))
        seen = len(table.commits)
        _, there, _ = simulated((chosen,), commits, now)

        assert [s.savepoint.instant for s in there] == table.of()
