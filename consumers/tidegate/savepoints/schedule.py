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
    """What to save for a commit: itself, the commit before it, both or nothing."""

    tiers: tuple[Tier, ...] = ()
    before: bool = False


def wanted(rule: PolicyRule, state: PolicyState, commit: CommitCompleted, at: datetime) -> Wanted:
    """Decide on a commit that was not considered before.

    Args:
        rule: The table's policy.
        state: What was requested so far.
        commit: The commit.
        at: When the broker got it. A period is one of the broker's time, in UTC.
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
        # a commit of long ago that is published now is no state of this period
        period, latest = period_of(tier.tier, at), period_of(tier.tier, at + CLOCK_TOLERANCE)
        # a period of the future is one of a clock that was wrong once: it must not end the tier
        is_new = last is None or period > last.period or last.period > latest
        return is_new and not is_long_ago(commit.instant, at)
    return True


def _is_within_gap(rule: PolicyRule, state: PolicyState, at: datetime) -> bool:
    last = state.last_at
    if not rule.min_gap or last is None or is_after(last, at):
        return False
    return at < last + rule.min_gap


def periods_of(tiers: tuple[Tier, ...], at: datetime) -> Iterator[tuple[Tier, str]]:
    """The tiers that come due again, each with its period at `at`; empty if it has none."""
    for tier in tiers:
        if tier in PERIODIC:
            yield tier, period_of(tier, at)
        elif tier is Tier.EVERY_N:
            yield tier, ""
