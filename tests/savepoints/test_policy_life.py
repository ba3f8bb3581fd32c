"""A policy's savepoints from their making to their removal, without any table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.events import (
    CommitCompleted,
    KeptSavepoint,
    SavepointCreated,
    SavepointMark,
    SavepointRejected,
    SavepointRemovalRejected,
    SavepointRemovalRequested,
    SavepointRequested,
)
from tidegate.events.reasons import Reason
from tidegate.savepoints import (
    PolicyRule,
    SavepointPolicy,
    SavepointPolicyService,
    Tier,
    TierRule,
)
from tidegate.savepoints.policy_state import MAX_SAVEPOINTS, REMEMBERED, PolicyState
from tidegate.savepoints.simulation import Simulation

START = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)  # a Monday
TABLE = "lake.sales.orders"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def service(*tiers: TierRule, **fields: object) -> SavepointPolicyService:
    given = {"name": "sales", "pattern": "lake.*", "tiers": tiers} | fields
    return SavepointPolicyService(SavepointPolicy(rules=(PolicyRule.model_validate(given),)))


def commit(at: datetime, operation: str | None = "upsert", **fields: object) -> CommitCompleted:
    given = {
        "table": TABLE,
        "location": "/lake/orders",
        "occurred_at": at,
        "source": "writer",
        "instant": f"{at:%Y%m%d%H%M%S}000",
        "action": "commit",
        "operation": operation,
    }
    return CommitCompleted.model_validate(given | fields)


def run(policy: SavepointPolicyService, step: timedelta, count: int) -> Simulation:
    simulation = Simulation(policy)
    for number in range(count):
        at = START + number * step
        simulation.commit(commit(at), at)
    return simulation


def live(simulation: Simulation) -> list[str]:
    return [savepoint.instant for savepoint in simulation.savepoints()]


def test_every_nth_commit_gets_a_savepoint() -> None:
    rule = TierRule(tier=Tier.EVERY_N, commits=3)

    found = live(run(service(rule), HOUR, 10))

    assert found == [commit(START + n * HOUR).instant for n in (2, 5, 8)]


def test_tiers_are_rotated_as_backups_are() -> None:
    policy = service(
        TierRule(tier=Tier.HOURLY, keep=24),
        TierRule(tier=Tier.DAILY, keep=7),
        TierRule(tier=Tier.WEEKLY, keep=4),
        TierRule(tier=Tier.MONTHLY, keep=12),
    )

    simulation = run(policy, HOUR, 24 * 100)

    marks = {savepoint.instant: savepoint.mark for savepoint in simulation.savepoints()}
    counts = {tier: sum(tier in mark.tiers for mark in marks.values()) for tier in Tier}
    assert counts[Tier.HOURLY] >= 24
    # 24 hours, 7 days, 4 Mondays, and each first of a month since March
    assert len(marks) <= 24 + 7 + 4 + 4
    days = sorted({i[:8] for i, mark in marks.items() if Tier.DAILY in mark.tiers})
    last = START + HOUR * (24 * 100 - 1)
    assert days[-7:] == [f"{last - n * DAY:%Y%m%d}" for n in range(6, -1, -1)]
    assert [i[:6] for i, m in marks.items() if Tier.MONTHLY in m.tiers] == [
        *("202603", "202604", "202605", "202606"),
    ]


def test_a_storm_of_commits_makes_one_savepoint_in_a_gap() -> None:
    rule = TierRule(tier=Tier.EVERY_COMMIT)

    found = live(run(service(rule, min_gap=HOUR), timedelta(minutes=1), 181))

    assert found == [commit(START + n * HOUR).instant for n in range(4)]


def test_what_was_due_within_a_gap_comes_with_the_first_commit_after_it() -> None:
    policy = service(
        TierRule(tier=Tier.EVERY_N, commits=2), TierRule(tier=Tier.DAILY), min_gap=HOUR
    )
    simulation = Simulation(policy)
    late = START + 23 * HOUR  # 23:30
    for at in (late, late + 0.6 * HOUR, late + 1.1 * HOUR):
        simulation.commit(commit(at), at)

    marks = [savepoint.mark.tiers for savepoint in simulation.savepoints()]
    assert marks == [(Tier.DAILY,), (Tier.EVERY_N, Tier.DAILY)]


def test_a_savepoint_whose_lifetime_is_over_goes_without_any_event() -> None:
    simulation = run(service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY)), HOUR, 3)
    assert len(live(simulation)) == 3

    simulation.until(START + DAY)
    assert len(live(simulation)) == 2
    simulation.until(START + 365 * DAY)

    # the newest of a tier stays, whatever its age
    assert live(simulation) == [commit(START + 2 * HOUR).instant]


def test_above_the_maximum_the_oldest_go() -> None:
    rule = TierRule(tier=Tier.EVERY_COMMIT, lifetime=365 * DAY)

    found = live(run(service(rule, max_count=5), HOUR, 20))

    assert found == [commit(START + n * HOUR).instant for n in range(15, 20)]


def test_the_commit_before_an_operation_is_saved_and_so_is_the_one_after() -> None:
    policy = service(
        TierRule(tier=Tier.BEFORE, operations=("delete*",), lifetime=DAY),
        TierRule(tier=Tier.AFTER, operations=("insert_overwrite*",), lifetime=DAY),
    )
    simulation = Simulation(policy)
    operations = ("upsert", "upsert", "delete", "Insert_Overwrite_Table", None)
    for number, operation in enumerate(operations):
        at = START + number * HOUR
        simulation.commit(commit(at, operation), at)

    found = {savepoint.instant: savepoint.mark.tiers for savepoint in simulation.savepoints()}
    assert found == {
        commit(START + HOUR).instant: (Tier.BEFORE,),
        commit(START + 3 * HOUR).instant: (Tier.AFTER,),
    }


def test_before_an_operation_is_named_by_the_operation_s_commit() -> None:
    policy = service(TierRule(tier=Tier.BEFORE, operations=("delete",)))
    event = commit(START, "delete")

    (request,) = policy.decide(policy.initial(), event, START).commands

    assert isinstance(request, SavepointRequested)
    assert (request.before, request.instant) == (event.instant, None)
    assert request.caused_by == event.event_id


def created(cause: SavepointRequested, at: datetime, **fields: object) -> SavepointCreated:
    mark = cause.mark.model_dump() if cause.mark else {}
    given: dict[str, object] = {"instant": cause.instant, "partitions": 1, "files": 1}
    given |= {"duration_ms": 1, "source": "savepoint-writer", "occurred_at": at}
    return SavepointCreated.about(cause, **given | mark | fields)


def asked(at: datetime, **fields: object) -> SavepointRequested:
    given = {"event_id": "ana-1", "table": TABLE, "location": "/lake/orders", "occurred_at": at}
    given |= {"source": "cli", "requested_by": "ana", "instant": f"{at:%Y%m%d%H%M%S}000"}
    return SavepointRequested.model_validate(given | fields)


def test_a_person_s_savepoint_is_remembered_only_with_a_lifetime() -> None:
    policy = service(TierRule(tier=Tier.DAILY, keep=1))
    plain = policy.decide(PolicyState(), created(asked(START), START), START)
    assert plain.state == PolicyState()

    limited = created(asked(START, lifetime_seconds=3600), START)
    state = policy.decide(PolicyState(), limited, START).state

    assert policy.due(TABLE, state) == START + HOUR
    (removal,) = policy.tick(TABLE, state, START + HOUR).commands
    assert isinstance(removal, SavepointRemovalRequested)
    assert (removal.policy, removal.by_lifetime) == (None, True)
    assert removal.reason == "its lifetime of 1:00:00 is over"


def test_a_lifetime_given_by_a_person_counts_where_no_policy_applies() -> None:
    none = SavepointPolicyService(SavepointPolicy())
    state = none.decide(
        none.initial(), created(asked(START, lifetime_seconds=60), START), START
    ).state

    assert len(none.tick(TABLE, state, START + HOUR).commands) == 1


def test_another_policy_s_savepoints_are_left_alone() -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=HOUR))
    state = policy.initial()
    for hour in (0, 1):
        at = START + hour * HOUR
        foreign = asked(at, policy="other", tiers=("every-commit",), requested_by="policy:other")
        state = policy.decide(state, created(foreign, at), at).state

    assert policy.due(TABLE, state) is None
    assert policy.tick(TABLE, state, START + 99 * DAY).commands == ()


def test_what_was_made_for_a_tier_that_is_gone_from_the_settings_stays() -> None:
    old = run(service(TierRule(tier=Tier.DAILY, keep=9)), DAY, 5)
    new = service(TierRule(tier=Tier.MONTHLY, keep=9))
    state = PolicyState()
    for savepoint in old.savepoints():
        request = asked(savepoint.made_at, policy="sales", tiers=savepoint.mark.tiers)
        state = new.decide(state, created(request, savepoint.made_at), savepoint.made_at).state

    assert new.tick(TABLE, state, START + 99 * DAY).commands == ()


def refused(request: SavepointRemovalRequested, reason: Reason) -> SavepointRemovalRejected:
    return SavepointRemovalRejected.about(
        request,
        instant=request.instant,
        reason=reason,
        message="no",
        source="savepoint-writer",
        occurred_at=START,
    )


def test_a_refused_removal_is_requested_again_later_as_another_request() -> None:
    policy = service()
    state = policy.decide(
        policy.initial(), created(asked(START, lifetime_seconds=60), START), START
    ).state
    first = policy.tick(TABLE, state, START + HOUR)
    (request,) = first.commands
    assert isinstance(request, SavepointRemovalRequested)

    answered = policy.decide(first.state, refused(request, Reason.RESTORE_PENDING), START + HOUR)
    assert answered.commands == ()
    again_at = policy.due(TABLE, answered.state)
    assert again_at == START + 2 * HOUR
    (again,) = policy.tick(TABLE, answered.state, START + 2 * HOUR).commands
    assert again.event_id != request.event_id


def test_what_the_table_says_is_a_person_s_is_not_asked_for_again() -> None:
    policy = service()
    state = policy.decide(
        policy.initial(), created(asked(START, lifetime_seconds=60), START), START
    ).state
    first = policy.tick(TABLE, state, START + HOUR)
    (request,) = first.commands
    assert isinstance(request, SavepointRemovalRequested)

    answered = policy.decide(first.state, refused(request, Reason.NOT_OF_POLICY), START + HOUR)

    assert answered.state.kept == ()


def test_a_tier_whose_savepoint_was_rejected_is_due_again() -> None:
    policy = service(TierRule(tier=Tier.DAILY, keep=2), TierRule(tier=Tier.EVERY_N, commits=2))
    first = policy.decide(policy.initial(), commit(START), START)
    (request,) = first.commands
    no = SavepointRejected.about(
        request, source="savepoint-writer", occurred_at=START, reason="missing-files", message="x"
    )
    state = policy.decide(first.state, no, START).state

    (again,) = policy.decide(state, commit(START + HOUR), START + HOUR).commands

    assert isinstance(again, SavepointRequested)
    assert set(again.tiers) == {Tier.DAILY, Tier.EVERY_N}


def test_a_commit_of_long_ago_is_not_a_backup_of_today() -> None:
    policy = service(TierRule(tier=Tier.DAILY, keep=2))

    assert policy.decide(policy.initial(), commit(START - 9 * DAY), START).commands == ()
    assert len(policy.decide(policy.initial(), commit(START - HOUR), START).commands) == 1


def kept(at: datetime, **fields: object) -> KeptSavepoint:
    given = {"instant": f"{at:%Y%m%d%H%M%S}000", "made_by": "policy:sales", "made_at": at}
    given |= {"policy": "sales", "tiers": ("daily",), "decided_at": at, "files": 1}
    return KeptSavepoint.model_validate(given | fields)


def test_a_review_of_the_table_heals_a_lost_memory() -> None:
    policy = service(TierRule(tier=Tier.DAILY, keep=2))
    first = policy.decide(policy.initial(), commit(START), START)
    (request,) = first.commands
    assert isinstance(request, SavepointRequested)
    assert request.review
    there = tuple(kept(START - n * DAY) for n in range(5, -1, -1))
    outcome = created(request, START, reviewed=True, savepoints=there)

    decision = policy.decide(first.state, outcome, START)

    asked_for = [e.instant for e in decision.commands if isinstance(e, SavepointRemovalRequested)]
    assert asked_for == [savepoint.instant for savepoint in there[:4]]
    next_day = policy.decide(decision.state, commit(START + HOUR * 25), START + HOUR * 25)
    assert [e.review for e in next_day.commands if isinstance(e, SavepointRequested)] == [True]


def test_a_backlog_asks_for_one_review_and_again_when_it_was_not_answered() -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT))
    state, asked_for = policy.initial(), list[bool]()
    for minute in (0, 1, 2, 59, 61, 62):
        at = START + timedelta(minutes=minute)
        decision = policy.decide(state, commit(at), at)
        state = decision.state
        asked_for += [e.review for e in decision.commands if isinstance(e, SavepointRequested)]

    assert asked_for == [True, False, False, False, True, False]


@pytest.mark.parametrize(
    ("count", "most_bytes"), [(0, 6_000), (100, 24_000), (MAX_SAVEPOINTS + 500, 190_000)]
)
def test_a_table_s_record_in_the_changelog_stays_small(count: int, most_bytes: int) -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY), TierRule(tier=Tier.HOURLY))
    state = PolicyState()
    there = tuple(kept(START + n * HOUR, tiers=("every-commit", "hourly")) for n in range(count))
    for number in range(REMEMBERED + 10):
        at = START + number * timedelta(seconds=7)
        decision = policy.decide(state, commit(at), at)
        state = decision.state
    outcome = created(asked(START, policy="sales"), START, reviewed=True, savepoints=there)
    state = policy.decide(state, outcome, START).state

    record = state.model_dump_json()

    assert len(state.kept) == min(count, MAX_SAVEPOINTS)
    assert len(record) < most_bytes
    assert PolicyState.model_validate_json(record) == state


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"instant": "tomorrow"}, id="no instant"),
        pytest.param({"location": "a/b"}, id="no absolute path"),
        pytest.param({"lifetime_seconds": 2**62}, id="a lifetime beyond all time"),
        pytest.param({"tiers": ("a b",), "policy": "sales"}, id="no tier"),
        pytest.param({"policy": "two words"}, id="no policy"),
    ],
)
def test_an_outcome_that_no_removal_can_be_requested_for_is_not_remembered(
    fields: dict[str, object],
) -> None:
    """Else a tick would raise, where there is no event to put aside: the service would stop."""
    policy = service(TierRule(tier=Tier.DAILY, keep=1))
    honest = created(asked(START, lifetime_seconds=60), START).model_dump()

    with pytest.raises(ValueError, match=f"{next(iter(fields))}|absolute"):
        policy.decide(PolicyState(), SavepointCreated.model_validate(honest | fields), START)


def test_a_review_forgets_what_is_gone() -> None:
    policy = service(TierRule(tier=Tier.DAILY, keep=1))
    simulation = run(policy, DAY, 3)
    state = PolicyState()
    for savepoint in simulation.savepoints():
        request = asked(savepoint.made_at, policy="sales", tiers=savepoint.mark.tiers)
        state = policy.decide(state, created(request, savepoint.made_at), savepoint.made_at).state
    assert state.kept
    request = asked(START + 9 * DAY, policy="sales", tiers=("daily",))
    alone = (kept(START + 9 * DAY),)

    outcome = created(request, START + 9 * DAY, reviewed=True, savepoints=alone)
    reviewed = policy.decide(state, outcome, START + 9 * DAY).state

    assert [savepoint.instant for savepoint in reviewed.kept] == [alone[0].instant]


@pytest.mark.parametrize(
    "mark",
    [
        SavepointMark(policy="sales", tiers=("daily", "weekly"), decided_at=START),
        SavepointMark(decided_at=START, lifetime_seconds=3600),
        SavepointMark(policy="a.b-c_D", decided_at=START.replace(microsecond=120)),
    ],
)
@pytest.mark.parametrize("comment", ["", "before the load", "[tidegate x=1] nested"])
def test_a_mark_is_read_back_from_a_comment(mark: SavepointMark, comment: str) -> None:
    assert SavepointMark.parse(mark.before(comment)) == (mark, comment)


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "tidegate policy=sales",
        "[tidegate policy=sales]",
        "[tidegate policy=sales tiers=daily decided=yesterday]",
        "[tidegate policy=sales decided=2026-03-01T00:00:00+00:00 more=1]",
        "[tidegate policy=sales decided=2026-03-01T00:00:00+00:00]x",
        " [tidegate policy=sales decided=2026-03-01T00:00:00+00:00]",
    ],
)
def test_what_only_resembles_a_mark_is_not_one(comment: str) -> None:
    assert SavepointMark.parse(comment) == (None, comment)


def test_a_person_can_not_write_a_mark_in_a_comment() -> None:
    with pytest.raises(ValueError, match="comment must not begin with"):
        asked(START, comment="[tidegate policy=sales decided=2026-03-01T00:00:00+00:00]")
