from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.policies import every_commit
from tidegate.errors import FormatError
from tidegate.events import CommitCompleted, SavepointRequested
from tidegate.savepoints import PolicyRule, SavepointPolicy, SavepointPolicyService
from tidegate.savepoints.policy_state import REMEMBERED, PolicyState

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)
POLICY = SavepointPolicy(
    rules=(
        PolicyRule(pattern="lake.sales.orders_tmp"),
        every_commit("lake.sales.*", "nightly"),
    ),
)
SERVICE = SavepointPolicyService(POLICY)


def commit(instant: str = "20260301100100000", **fields: object) -> CommitCompleted:
    given = {
        "table": "lake.sales.orders",
        "location": "/lake/orders",
        "occurred_at": AT - timedelta(hours=3),
        "source": "writer",
        "instant": instant,
        "action": "commit",
    }
    return CommitCompleted.model_validate(given | fields)


def test_every_commit_of_a_covered_table_gets_a_savepoint() -> None:
    event = commit()

    decision = SERVICE.decide(SERVICE.initial(), event, AT)

    (request,) = decision.commands
    assert isinstance(request, SavepointRequested)
    assert request.table == "lake.sales.orders"
    assert request.location == "/lake/orders"
    assert request.instant == "20260301100100000"
    assert request.requested_by == "policy:nightly"
    assert request.caused_by == event.event_id
    assert request.occurred_at == AT


def test_a_commit_published_twice_is_asked_for_once() -> None:
    state = SERVICE.decide(SERVICE.initial(), commit(), AT).state

    again = SERVICE.decide(state, commit(source="bridge"), AT + timedelta(days=1))

    assert again.commands == ()
    assert again.state == state


def test_the_same_arguments_give_the_same_answer() -> None:
    first = SERVICE.decide(SERVICE.initial(), commit(), AT)

    assert SERVICE.decide(SERVICE.initial(), commit(), AT) == first


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit"])
def test_every_action_that_can_be_savepointed_is(action: str) -> None:
    assert len(SERVICE.decide(SERVICE.initial(), commit(action=action), AT).commands) == 1


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"action": "clean"}, id="a clean can't be savepointed"),
        pytest.param({"action": "rollback"}, id="nor a rollback"),
        pytest.param({"table": "lake.hr.staff"}, id="no rule covers the table"),
        pytest.param({"table": "lake.sales.orders_tmp"}, id="the first rule that covers counts"),
    ],
)
def test_other_commits_are_passed_over_and_not_remembered(fields: dict[str, str]) -> None:
    decision = SERVICE.decide(SERVICE.initial(), commit(**fields), AT)

    assert decision.commands == ()
    assert decision.state == SERVICE.initial()


def test_a_pattern_is_written_in_any_case() -> None:
    rule = every_commit("Lake.Sales.*")

    assert rule.covers("lake.sales.orders")


def test_memory_is_bounded_and_what_fell_out_is_not_asked_for_again() -> None:
    state = PolicyState()
    for number in range(REMEMBERED + 10):
        state = SERVICE.decide(state, commit(f"2026030110{number:07d}"), AT).state

    assert len(state.instants) == REMEMBERED
    days_later = AT + timedelta(days=3)
    assert SERVICE.decide(state, commit("20260301100000000"), days_later).commands == ()
    assert len(SERVICE.decide(state, commit("20260302100000000"), days_later).commands) == 1


@pytest.mark.parametrize(
    "instant",
    ["99991231235959999", "99999999999999", "20260303000000001", "20260303000001"],
)
def test_an_instant_in_the_future_is_refused_and_not_remembered(instant: str) -> None:
    with pytest.raises(FormatError, match=f"the instant {instant} is more than a day later"):
        SERVICE.decide(SERVICE.initial(), commit(instant), AT)


@pytest.mark.parametrize("instant", ["20260302235959999", "20260301100000000", "20260302000000"])
def test_a_writer_s_time_zone_and_clock_may_be_ahead(instant: str) -> None:
    assert len(SERVICE.decide(SERVICE.initial(), commit(instant), AT).commands) == 1


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param("20260302235959{:03d}", id="as late as is believed"),
        pytest.param("20260301100000{:03d}", id="of just now"),
        pytest.param("00000101000000{:03d}", id="of long ago"),
    ],
)
def test_forged_commits_do_not_switch_savepoints_off(forged: str) -> None:
    state = SERVICE.initial()
    for number in range(2 * REMEMBERED):
        state = SERVICE.decide(state, commit(forged.format(number)), AT).state

    for hour in range(24):
        at = AT + timedelta(hours=hour, minutes=1)
        real = SERVICE.decide(state, commit(f"{at:%Y%m%d%H%M%S}042"), at)
        state = real.state
        assert len(real.commands) == 1
    assert len(state.instants) <= REMEMBERED


def test_a_commit_published_some_hours_late_is_saved_also_when_the_memory_is_full() -> None:
    state = SERVICE.initial()
    for number in range(REMEMBERED):
        state = SERVICE.decide(state, commit(f"20260301100000{number:03d}"), AT).state

    assert len(SERVICE.decide(state, commit("20260301040000000"), AT).commands) == 1


def test_a_commit_published_late_still_gets_its_savepoint() -> None:
    state = SERVICE.decide(SERVICE.initial(), commit("20260301100200000"), AT).state

    late = SERVICE.decide(state, commit("20260301100100000"), AT)

    assert len(late.commands) == 1
    assert late.state.instants == ("20260301100100000", "20260301100200000")
