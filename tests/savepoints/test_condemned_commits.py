"""A writer condemns a commit: by the settings nothing, a plan, or a restore to be approved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.hudi_tables import at as instant_at
from support.hudi_tables import (
    four_commits,
    savepoint_request,
    snapshot,
    ticking,
    warehouse_over,
)
from support.policies import every_commit
from support.samples import events_on, memory_bus, message
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    CommitCondemned,
    CommitFlagged,
    Event,
    RestoreApproved,
    RestoreAwaitingApproval,
    RestorePlanned,
    RestoreRequested,
    SavepointCreated,
    SavepointRemoved,
)
from tidegate.runtime.memory.bus import MemoryBus
from tidegate.savepoints import (
    CondemnedAction,
    CondemnedRule,
    CondemnedRules,
    SavepointPolicy,
    SavepointPolicyService,
    SavepointWriter,
)
from tidegate.savepoints.policy_state import PolicyState
from tidegate.service.assembly import assemble
from tidegate.service.settings import Settings

AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
TABLE = {"table": "lake.sales.orders", "location": "/lake/orders", "occurred_at": AT}
FIRST, BAD, LATER = "20260301100000000", "20260301100200000", "20260301100300000"


def service(action: CondemnedAction, *, policy: bool = False) -> SavepointPolicyService:
    rules = CondemnedRules(rules=(CondemnedRule(tables="lake.SALES.*", action=action),))
    made = SavepointPolicy(rules=(every_commit("lake.*"),) if policy else ())
    return SavepointPolicyService(made, rules)


def committed(instant: str) -> CommitCompleted:
    fields = TABLE | {"source": "ingest", "instant": instant, "action": "commit"}
    return CommitCompleted.model_validate(fields)


def condemned(instant: str = BAD, **more: Any) -> CommitCondemned:  # noqa: ANN401
    fields = TABLE | {"source": "ingest", "instant": instant, "reason": "doubled"} | more
    return CommitCondemned.model_validate(fields)


def created(instant: str, **more: Any) -> SavepointCreated:  # noqa: ANN401
    fields = TABLE | {"source": "savepoint-writer", "caused_by": f"request-{instant}"}
    counts = {"instant": instant, "partitions": 1, "files": 1, "duration_ms": 1}
    return SavepointCreated.model_validate(fields | counts | more)


def removed(instant: str) -> SavepointRemoved:
    fields = TABLE | {"source": "savepoint-writer", "caused_by": "removal", "instant": instant}
    return SavepointRemoved.model_validate(fields | {"savepoints_left": 0, "duration_ms": 1})


def after(made: SavepointPolicyService, *events: Event) -> PolicyState:
    state = made.initial()
    for event in events:
        state = made.decide(state, event, AT).state
    return state


KNOWN = (created(FIRST), committed(FIRST), committed(BAD), committed(LATER))


def test_a_plan_is_requested_to_the_newest_savepoint_before_it() -> None:
    made = service(CondemnedAction.PLAN)
    older = created("20260301090000000")
    state = after(made, older, *KNOWN, created(LATER))

    (request,) = made.decide(state, condemned(), AT).commands

    assert isinstance(request, RestoreRequested)
    assert (request.savepoint, request.plan_only, request.needs_approval) == (FIRST, True, False)
    assert request.caused_by == condemned().event_id
    assert request.requested_by == "ingest"
    assert request.reason == f"commit {BAD} was condemned by ingest: doubled"
    assert request.location == "/lake/orders"


def test_a_restore_is_requested_that_needs_an_approval_and_covers_what_was_published() -> None:
    made = service(CondemnedAction.RESTORE)

    (request,) = made.decide(after(made, *KNOWN), condemned(), AT).commands

    assert isinstance(request, RestoreRequested)
    assert (request.plan_only, request.needs_approval) == (False, True)
    assert request.seen_up_to == LATER


@pytest.mark.parametrize("policy", [False, True])
def test_nothing_follows_by_default(policy: bool) -> None:  # noqa: FBT001 - a parameter
    quiet = SavepointPolicyService(service(CondemnedAction.PLAN, policy=policy).policy)
    for made in (quiet, service(CondemnedAction.NOTHING, policy=policy)):
        state = after(made, *KNOWN)

        decision = made.decide(state, condemned(), AT)

        assert (decision.commands, decision.outcomes) == ((), ())
        assert decision.state is state


def test_without_a_savepoint_before_it_an_outcome_says_so() -> None:
    made = service(CondemnedAction.RESTORE)

    decision = made.decide(after(made, committed(BAD), created(BAD)), condemned(), AT)

    assert decision.commands == ()
    (flagged,) = decision.outcomes
    assert isinstance(flagged, CommitFlagged)
    assert (flagged.flag, flagged.instant) == ("no-savepoint-before", BAD)
    assert flagged.caused_by == condemned().event_id


def test_a_savepoint_that_was_removed_is_not_known_any_more() -> None:
    made = service(CondemnedAction.PLAN)
    lasting, by_policy = created(FIRST), created("20260301090000000", policy="p", tiers=("hourly",))
    state = after(made, lasting, by_policy, removed(FIRST))

    (request,) = made.decide(state, condemned(), AT).commands

    assert isinstance(request, RestoreRequested)
    assert request.savepoint == "20260301090000000"
    # and is kept from removal, as long as a restore may use it
    assert made.decide(state, condemned(), AT).state.is_wanted(request.savepoint, AT)


def test_a_repeat_changes_nothing_also_when_there_are_other_savepoints_by_then() -> None:
    made = service(CondemnedAction.RESTORE)
    state = after(made, *KNOWN, condemned())
    state = made.decide(state, created("20260301100100000"), AT).state

    again = made.decide(state, condemned(reason="other words", source="bridge"), AT)

    assert (again.commands, again.outcomes) == ((), ())
    assert again.state is state


def test_an_instant_of_the_future_is_refused_and_widens_nothing() -> None:
    made = service(CondemnedAction.RESTORE)
    state = after(made, *KNOWN)
    forged = committed("20991231000000000")

    with pytest.raises(FormatError):
        made.decide(state, condemned("20991231000000000"), AT)
    assert made.decide(state, forged, AT).state.newest == LATER


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), max_size=6),
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=1, max_size=8),
    st.sampled_from([CondemnedAction.PLAN, CondemnedAction.RESTORE]),
)
def test_each_commit_is_answered_once_and_never_by_a_savepoint_that_has_it(
    savepoints: list[int], bad: list[int], action: CondemnedAction
) -> None:
    made = service(action)
    state = after(made, *(created(f"2026030110{n:02}00000") for n in savepoints))
    answered: list[Event] = []
    for number in bad:
        decision = made.decide(state, condemned(f"2026030110{number:02}00000"), AT)
        state = decision.state
        answered += [*decision.commands, *decision.outcomes]

    assert len({event.caused_by for event in answered}) == len(answered) == len(set(bad))
    for event in answered:
        if isinstance(event, RestoreRequested):
            assert event.needs_approval is (action is CondemnedAction.RESTORE)
            assert event.savepoint < event.reason.split()[1]
            assert int(event.savepoint[10:12]) in savepoints


def waiting(until: datetime | None) -> RestoreAwaitingApproval:
    fields = TABLE | {"source": "restorer", "caused_by": "r-1", "savepoint": FIRST}
    plan = {"plan_id": "p", "instants": (), "files": 0, "bytes": 0, "expires_at": until}
    return RestoreAwaitingApproval.model_validate(fields | plan)


def test_a_savepoint_is_kept_while_a_restore_to_it_waits_for_its_approval() -> None:
    made = service(CondemnedAction.NOTHING)
    week = AT + timedelta(days=7)
    state = after(made, created(FIRST, policy="p", tiers=("hourly",)), waiting(week))

    assert state.is_wanted(FIRST, week - timedelta(seconds=1))
    assert not state.is_wanted(FIRST, week)
    forged = made.decide(state, waiting(AT + timedelta(days=9_000)), AT).state
    assert not forged.is_wanted(FIRST, AT + timedelta(days=21))


def test_a_restore_without_approval_is_not_an_answer_to_a_condemned_commit() -> None:
    rule = {"tables": "*", "approval": False, "condemned": "restore"}
    with pytest.raises(ValidationError, match="needs approval = true"):
        Settings.model_validate({"restores": {"rules": [rule]}})


class Lake:
    """The policy and the two Hudi executors on a bus in memory, over a table with a savepoint."""

    def __init__(self, root: Path, action: str, *, approval: bool = True) -> None:
        self.root = root
        self.table = four_commits(root / "orders", 9)
        writer = SavepointWriter(warehouse_over(root), ThreadMap(), ticking())
        list(writer.execute(savepoint_request(self.table, instant_at(2))))
        self.bus: MemoryBus = memory_bus()
        rule = {"locations": [str(root)], "approval": approval, "condemned": action}
        self.settings = Settings.model_validate(
            {
                "warehouse": {"roots": [str(root)]},
                "restores": {"watch_seconds": 0, "rules": [rule]},
            }
        )

    def run(self, *sent: Event, names: tuple[str, ...] = ()) -> list[Event]:
        self.bus.send([message(event) for event in sent])
        services = names or ("coordinator", "savepoint-writer", "restorer")
        loops = [assemble(name, self.settings, self.bus) for name in services]
        rests = 0
        while rests < 3:
            busy = [loop.step(0.001) for loop in loops]  # type: ignore[attr-defined]
            pending = any(getattr(loop, "pending", False) for loop in loops)
            rests = 0 if pending or any(busy) else rests + 1
        for loop in loops:
            loop.close()
        assert self.bus.records("tidegate.dead-letters") == []
        return events_on(self.bus, "tidegate.outcomes")

    def event(self, kind: type[Event], **more: Any) -> Event:  # noqa: ANN401
        subject = TABLE | {"location": str(self.root / "orders"), "source": "ingest"}
        return kind.model_validate(subject | more)

    def condemn(self) -> list[Event]:
        saved = self.event(
            SavepointCreated,
            caused_by="s-1",
            instant=instant_at(2),
            partitions=1,
            files=1,
            duration_ms=1,
        )
        commits = [
            self.event(CommitCompleted, instant=instant_at(n), action="commit") for n in (3, 4)
        ]
        # the topics have no common order: what is known is known before
        self.bus.send([message(saved)])
        self.run(*commits)
        return self.run(self.event(CommitCondemned, instant=instant_at(3), reason="doubled"))


def test_a_condemned_commit_gives_a_plan_and_changes_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "plan")
    before = snapshot(tmp_path)
    found = lake.condemn()

    (planned,) = [event for event in found if isinstance(event, RestorePlanned)]
    assert [instant.instant for instant in planned.instants] == [instant_at(4), instant_at(3)]
    assert snapshot(tmp_path) == before
    # read again, nothing is published again
    condemned_again = lake.event(CommitCondemned, instant=instant_at(3), reason="doubled")
    assert lake.run(condemned_again) == found


def test_a_condemned_commit_is_restored_once_a_person_approves(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "restore")
    before = snapshot(tmp_path)
    found = lake.condemn()

    (waits,) = [event for event in found if isinstance(event, RestoreAwaitingApproval)]
    assert waits.requested_by == "ingest"
    assert snapshot(tmp_path) == before
    approval = lake.event(
        RestoreApproved,
        event_id="a-1",
        caused_by=waits.caused_by,
        request=waits.caused_by,
        plan_id=waits.plan_id,
        approved_by="ben",
        reason="looked at it",
    )
    kinds = [type(event).__name__ for event in lake.run(approval)]
    assert kinds[-2:] == ["RestoreStarted", "RestoreCompleted"]


def test_a_request_that_needs_an_approval_is_refused_by_a_restorer_that_knows_of_none(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path, "nothing", approval=False)
    request = RestoreRequested.model_validate(
        TABLE
        | {
            "event_id": "r-1",
            "location": str(tmp_path / "orders"),
            "source": "coordinator",
            "savepoint": instant_at(2),
            "requested_by": "ingest",
            "reason": "condemned",
            "seen_up_to": "99991231235959999",
            "needs_approval": True,
        }
    )
    before = snapshot(tmp_path)

    (refused,) = lake.run(request, names=("restorer",))

    assert getattr(refused, "reason", None) == "approval-not-configured"
    assert snapshot(tmp_path) == before
