"""Why a commit has a savepoint by policy, or none."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.samples import NOON, commit
from tidegate.events import CommitCompleted, Event, SavepointRequested
from tidegate.ops.event_log import LoggedEvent
from tidegate.ops.explain.policy import PolicyStory, policy_story
from tidegate.runtime.bus import Partition, Record
from tidegate.savepoints.policy import SavepointPolicyService
from tidegate.savepoints.rules import PolicyRule, SavepointPolicy, Tier, TierRule

TABLE = commit(1).table
HOUR = timedelta(hours=1)


def shown(policy: SavepointPolicy, *commits: CommitCompleted, gap: timedelta = HOUR) -> PolicyStory:
    """The story after the real policy has decided on these commits, an hour apart."""
    service, events = SavepointPolicyService(policy), list[LoggedEvent]()
    state = service.initial()
    for number, commit_ in enumerate(commits):
        at = NOON + number * gap
        decision = service.decide(state, commit_, at)
        state = decision.state
        events += [
            logged(event, int(at.timestamp() * 1000)) for event in (commit_, *decision.commands)
        ]
    return policy_story(policy, TABLE, events)


def logged(event: Event, at_ms: int) -> LoggedEvent:
    return LoggedEvent(Record(Partition("t", 0), 0, b"", b"", (), at_ms), event)


def rule(
    *tiers: TierRule, pattern: str = "lake.sales.*", gap: timedelta = timedelta(0)
) -> SavepointPolicy:
    return SavepointPolicy(rules=(PolicyRule(pattern=pattern, tiers=tiers, min_gap=gap),))


def sentences(story: PolicyStory) -> list[str]:
    return [f"{commit_.requested}: {commit_.why}" for commit_ in story.commits]


def test_a_savepoint_on_every_commit_names_its_tier() -> None:
    story = shown(
        rule(TierRule(tier=Tier.EVERY_COMMIT, keep=3, lifetime=timedelta(days=30))),
        commit(1),
        commit(2),
    )

    assert story.rule == (
        "rule 1 of [[savepoints]] (policy default, tables 'lake.sales.*'):"
        " every-commit (retained: the newest 3 for 30d)"
    )
    assert sentences(story) == ["True: policy default, tier every-commit"] * 2


def test_one_a_day_says_which_commit_has_it() -> None:
    story = shown(rule(TierRule(tier=Tier.DAILY)), commit(1), commit(2))

    assert sentences(story) == [
        "True: policy default, tier daily",
        f"False: daily: the savepoint of {NOON:%Y-%m-%d} is on commit {commit(1).instant}",
    ]


def test_a_gap_an_operation_and_one_in_n_are_said() -> None:
    gap = shown(rule(TierRule(tier=Tier.EVERY_COMMIT), gap=2 * HOUR), commit(1), commit(2))
    assert sentences(gap)[1] == f"False: within 2h of the one on commit {commit(1).instant}"

    every = shown(rule(TierRule(tier=Tier.EVERY_N, commits=3)), commit(1))
    assert sentences(every) == ["False: every-n: one for 3 commits"]

    operation = shown(rule(TierRule(tier=Tier.AFTER, operations=("delete*",))), commit(1))
    assert sentences(operation) == [
        f"False: after delete*: its operation is {commit(1).operation or 'not named'}"
    ]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (SavepointPolicy(), "no rule of [[savepoints]] covers this table"),
        (rule(pattern="lake.sales.*"), "rule 1 of [[savepoints]]"),
    ],
)
def test_a_table_without_a_policy_gets_savepoints_on_request(
    policy: SavepointPolicy, said: str
) -> None:
    story = shown(policy, commit(1))

    assert story.rule.startswith(said)
    assert story.rule.endswith("savepoints on request only")
    assert sentences(story) == ["False: no rule asks for one"]


def test_a_commit_that_was_published_twice_is_one_and_a_persons_request_is_not_the_policys() -> (
    None
):
    policy = rule(TierRule(tier=Tier.EVERY_COMMIT))
    asked = SavepointRequested.about(
        commit(1), source="ana", occurred_at=NOON, requested_by="ana", instant=commit(1).instant
    )
    events = [logged(event, 1_000) for event in (commit(1), commit(1), asked)]
    [only] = policy_story(policy, TABLE, events).commits

    assert not only.requested
    assert str(only).startswith(f"commit {commit(1).instant}: no savepoint was requested:")
    assert policy_story(policy, TABLE, events).as_json()["commits"][0]["requested"] is False
