"""For which tiers a commit gets a savepoint. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidegate.events import CommitCompleted
from tidegate.hudi.instant_time import CLOCK_TOLERANCE, is_after, is_long_ago
from tidegate.savepoints.policy_state import PolicyState
from tidegate.savepoints.rules import OPERATIONS, PERIODIC, PolicyRule, Tier, TierRule, period_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """The savepoints to make for a commit: of itself, of the commit before it, both or none."""

    tiers: tuple[Tier, ...] = ()
    before: bool = False


def wanted(rule: PolicyRule, state: PolicyState, commit: CommitCompleted, at: datetime) -> Wanted:
    """Decide on a commit that was not considered before.

    Args:
        rule: The table's policy.
        state: The requests so far.
        commit: The commit.
        at: The broker's time of the commit's event. Periods are in broker time, UTC.
    """
    due = [tier.tier for tier in rule.tiers if _is_due(tier, state, commit, at)]
    before = Tier.BEFORE in due
    tiers = [tier for tier in due if tier is not Tier.BEFORE]
    if _is_within_gap(rule, state, at):
        tiers = [tier for tier in tiers if tier in OPERATIONS]
    return Wanted(tuple(tiers), before)


def _is_due(tier: TierRule, state: PolicyState, commit: CommitCompleted, at: datetime) -> bool:
    if tier.tier in OPERATIONS:
        return tier.matches(commit.operation)
    if tier.tier is Tier.EVERY_N:
        return state.commits + 1 >= tier.commits
    if tier.tier in PERIODIC:
        last = state.tiers.get(tier.tier)
        # an old commit that is published now is not a state of this period
        period, latest = period_of(tier.tier, at), period_of(tier.tier, at + CLOCK_TOLERANCE)
        # a future period is from a clock that was wrong once: it must not stop the tier
        is_new = last is None or period > last.period or last.period > latest
        return is_new and not is_long_ago(commit.instant, at)
    return True


def _is_within_gap(rule: PolicyRule, state: PolicyState, at: datetime) -> bool:
    last = state.last_at
    if not rule.min_gap or last is None or is_after(last, at):
        return False
    return at < last + rule.min_gap


def periods_of(tiers: tuple[Tier, ...], at: datetime) -> Iterator[tuple[Tier, str]]:
    """The tiers that become due again, each with its period at `at` ("" without periods)."""
    for tier in tiers:
        if tier in PERIODIC:
            yield tier, period_of(tier, at)
        elif tier is Tier.EVERY_N:
            yield tier, ""
