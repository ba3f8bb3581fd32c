"""Clocks that jump, marks written by hand: what a policy must bear."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    Event,
    KeptSavepoint,
    Outcome,
    RestoreFailed,
    RestorePlanned,
    RestoreRejected,
    SavepointCreated,
    SavepointRemovalRequested,
    SavepointRequested,
)
from tidegate.runtime.input.dead_letter_limit import Fault, fault_of
from tidegate.savepoints import (
    PolicyRule,
    SavepointPolicy,
    SavepointPolicyService,
    Tier,
    TierRule,
)
from tidegate.savepoints.policy_state import PolicyState

START = datetime(2026, 3, 2, 0, 30, tzinfo=UTC)
TABLE = "lake.sales.orders"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LAST_YEAR = datetime.max.replace(tzinfo=UTC)


def service(*tiers: TierRule, **fields: object) -> SavepointPolicyService:
    given = {"name": "sales", "pattern": "lake.*", "tiers": tiers} | fields
    return SavepointPolicyService(SavepointPolicy(rules=(PolicyRule.model_validate(given),)))


def commit(at: datetime) -> CommitCompleted:
    return CommitCompleted(
        table=TABLE,
        location="/lake/orders",
        occurred_at=at,
        source="writer",
        instant=f"{at:%Y%m%d%H%M%S}000",
        action="commit",
    )


def created(at: datetime, **fields: object) -> SavepointCreated:
    given = {
        "table": TABLE,
        "location": "/lake/orders",
        "occurred_at": at,
        "source": "savepoint-writer",
        "caused_by": f"request of {at}",
        "instant": f"{at:%Y%m%d%H%M%S}000",
        "partitions": 1,
        "files": 1,
        "already_there": False,
        "duration_ms": 1,
        "policy": "sales",
        "tiers": ("daily",),
        "decided_at": at,
    }
    return SavepointCreated.model_validate(given | fields)


def requests(commands: Sequence[Event]) -> list[str | None]:
    return [command.instant for command in commands if isinstance(command, SavepointRequested)]


@pytest.mark.parametrize("lifetime", [DAY, 36_500 * DAY], ids=str)
def test_a_mark_of_the_last_year_stops_nothing(lifetime: timedelta) -> None:
    policy = service(TierRule(tier=Tier.DAILY, lifetime=lifetime))
    state = PolicyState()
    for number in range(3):
        moment = LAST_YEAR - number * DAY
        event = created(START + number * HOUR, decided_at=moment)
        state = policy.decide(state, event, START).state
    listed = KeptSavepoint(
        instant="20260302000000000",
        made_by="?",
        made_at=LAST_YEAR,
        lifetime_seconds=100 * 366 * 86_400,
        files=1,
    )
    review = created(START + 4 * HOUR, reviewed=True, savepoints=(listed,))

    assert policy.due(TABLE, state) is not None
    assert policy.tick(TABLE, state, START + DAY).commands == ()
    state = policy.decide(state, review, START).state
    assert [savepoint.instant for savepoint in state.kept] == [listed.instant]
    assert policy.due(TABLE, state) is not None


def test_after_a_jump_of_the_broker_s_clock_savepoints_are_made_as_before() -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY), min_gap=HOUR)
    wrong = datetime(2099, 1, 1, tzinfo=UTC)
    state = policy.decide(PolicyState(), commit(START), wrong).state

    later = START + 2 * HOUR
    found = policy.decide(state, commit(later), later)

    assert requests(found.commands) == [commit(later).instant]
    assert [e.review for e in found.commands if isinstance(e, SavepointRequested)] == [True]


def test_a_period_of_the_future_does_not_end_a_tier() -> None:
    policy = service(TierRule(tier=Tier.DAILY, lifetime=DAY))
    wrong = datetime(2099, 1, 1, tzinfo=UTC)
    state = policy.decide(PolicyState(), commit(wrong), wrong).state

    found = policy.decide(state, commit(START), START)

    assert requests(found.commands) == [commit(START).instant]


def test_what_was_asked_for_in_the_future_is_asked_for_again() -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY))
    state = PolicyState()
    for number in range(2):
        at = START + number * HOUR
        state = policy.decide(state, created(at, tiers=("every-commit",)), at).state
    wrong = datetime(2099, 1, 1, tzinfo=UTC)
    jumped = policy.tick(TABLE, state, wrong)
    assert len(jumped.commands) == 1

    at = START + 3 * DAY
    again = policy.tick(TABLE, jumped.state, at).commands

    assert [e.attempt for e in again if isinstance(e, SavepointRemovalRequested)] == [1]
    due = policy.due(TABLE, jumped.state)
    assert due is not None


def test_a_maximum_takes_the_oldest_but_no_tier_s_newest() -> None:
    before = TierRule(tier=Tier.BEFORE, lifetime=90 * DAY, operations=("delete",))
    policy = service(TierRule(tier=Tier.DAILY, lifetime=90 * DAY), before, max_count=3)
    state, asked = PolicyState(), list[str]()
    for number in range(4):
        at = START + number * DAY
        tiers = ("daily",) if number else ("before",)
        decision = policy.decide(state, created(at, tiers=tiers), at)
        state = decision.state
        asked += [e.instant for e in decision.commands if isinstance(e, SavepointRemovalRequested)]

    assert asked == [f"{START + DAY:%Y%m%d%H%M%S}000"]


def test_savepoints_whose_lifetime_is_over_count_towards_what_the_maximum_removes() -> None:
    """Five, at most three: the two that are over go, and none of the others."""
    tier = TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY)
    state, made = PolicyState(), [START + number * HOUR for number in range(5)]
    for at in made:
        state = service(tier).decide(state, created(at, tiers=("every-commit",)), at).state

    asked = service(tier, max_count=3).tick(TABLE, state, made[1] + DAY).commands

    instants = [event.instant for event in asked if isinstance(event, SavepointRemovalRequested)]
    assert instants == [f"{at:%Y%m%d%H%M%S}000" for at in made[:2]]


def restore_outcome(kind: type[Outcome], savepoint: str, at: datetime) -> Outcome:
    given: dict[str, object] = {
        "table": TABLE,
        "location": "/lake/orders",
        "occurred_at": at,
        "source": "restorer",
        "caused_by": "a person's request",
        "savepoint": savepoint,
    }
    given |= {"plan_id": "a plan", "instants": (), "files": 1, "bytes": 1}
    given |= {"restore_instant": savepoint, "message": "not now", "reason": "writer-active"}
    given = {name: value for name, value in given.items() if name in kind.model_fields}
    return kind.model_validate(given)


@pytest.mark.parametrize("kind", [RestorePlanned, RestoreRejected, RestoreFailed])
def test_a_savepoint_that_a_person_is_about_to_restore_to_stays_for_a_day(
    kind: type[Outcome],
) -> None:
    policy = service(TierRule(tier=Tier.EVERY_COMMIT, lifetime=DAY))
    state = PolicyState()
    for number in range(3):
        at = START + number * HOUR
        state = policy.decide(state, created(at, tiers=("every-commit",)), at).state
    wanted, other = (savepoint.instant for savepoint in state.kept[:2])
    asked_at = START + DAY - HOUR / 2
    state = policy.decide(state, restore_outcome(kind, wanted, asked_at), asked_at).state

    assert policy.due(TABLE, state) == START + HOUR + DAY  # the other's
    at = START + HOUR + DAY
    found = policy.tick(TABLE, state, at)
    removed = [e.instant for e in found.commands if isinstance(e, SavepointRemovalRequested)]
    assert removed == [other]
    at = asked_at + DAY
    assert policy.due(TABLE, found.state) == min(at, START + DAY + 2 * HOUR)
    found = policy.tick(TABLE, found.state, at)
    removed = [e.instant for e in found.commands if isinstance(e, SavepointRemovalRequested)]
    assert wanted in removed


def test_wishes_for_savepoints_that_are_not_known_are_not_remembered() -> None:
    policy = service(TierRule(tier=Tier.DAILY, lifetime=DAY))
    state = policy.decide(PolicyState(), created(START), START).state

    after = policy.decide(state, restore_outcome(RestorePlanned, "20200101000000000", START), START)

    assert after.state == state


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"instant": "null"}, id="an instant that is not one"),
        pytest.param({"policy": "file:///x y"}, id="a policy's name that is not one"),
        pytest.param({"location": "../.."}, id="a location that is not absolute"),
    ],
)
def test_an_outcome_that_contradicts_itself_is_at_fault_and_not_the_service(
    fields: dict[str, object],
) -> None:
    event = created(START, **fields)

    with pytest.raises(FormatError) as caught:
        service().decide(PolicyState(), event, START)
    assert fault_of(caught.value) is Fault.MESSAGE
