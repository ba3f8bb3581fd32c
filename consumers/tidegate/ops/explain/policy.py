"""Explain why the policy requested a savepoint of a commit, or why not, tier by tier. Pure.

The rules come from the caller's settings. A service with other settings decides differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from tidegate.events import CommitCompleted, SavepointRequested
from tidegate.events.durations import span
from tidegate.ops.event_log import LoggedEvent
from tidegate.savepoints.policy import SAVEPOINTABLE
from tidegate.savepoints.rules import (
    OPERATIONS,
    PERIODIC,
    PolicyRule,
    SavepointPolicy,
    Tier,
    TierRule,
    period_of,
)

_BY_POLICY: Final = "coordinator"


@dataclass(frozen=True, slots=True)
class DecidedCommit:
    """A commit, and the policy's decision."""

    event_id: str
    instant: str
    requested: bool
    why: str

    def __str__(self) -> str:
        """One line for people."""
        has = "a savepoint was requested" if self.requested else "no savepoint was requested"
        return f"commit {self.instant}: {has}: {self.why}"


@dataclass(frozen=True, slots=True)
class PolicyStory:
    """The rule of a table, and its decision on each shown commit."""

    rule: str
    commits: Sequence[DecidedCommit]

    def as_json(self) -> dict[str, Any]:
        """The same for scripts."""
        return {"rule": self.rule, "commits": [asdict(commit) for commit in self.commits]}


def policy_story(policy: SavepointPolicy, table: str, events: Sequence[LoggedEvent]) -> PolicyStory:
    """Explain a policy's decisions on the commits among a table's events, oldest first."""
    rule = policy.rule_of(table)
    requests = [e for e in _decoded(events) if isinstance(e[0], SavepointRequested)]
    by_cause = {
        request.caused_by: request
        for request, _ in requests
        if isinstance(request, SavepointRequested) and request.source == _BY_POLICY
    }
    asked = [
        (commit, at, by_cause[commit.event_id])
        for commit, at in _commits(events)
        if commit.event_id in by_cause
    ]
    return PolicyStory(
        _sentence(policy, rule, table),
        [_decided(rule, commit, at, asked) for commit, at in _once(_commits(events))],
    )


_Asked = tuple[CommitCompleted, datetime, SavepointRequested]


def _decided(
    rule: PolicyRule | None, commit: CommitCompleted, at: datetime, asked: Sequence[_Asked]
) -> DecidedCommit:
    own = next((request for other, _, request in asked if other.event_id == commit.event_id), None)
    if own is not None:
        tiers = ", ".join(own.tiers) or Tier.EVERY_COMMIT
        why = f"policy {own.policy or 'default'}, tier {tiers}"
        return DecidedCommit(commit.event_id, commit.instant, requested=True, why=why)
    return DecidedCommit(
        commit.event_id, commit.instant, requested=False, why=_why_not(rule, commit, at, asked)
    )


def _why_not(
    rule: PolicyRule | None, commit: CommitCompleted, at: datetime, asked: Sequence[_Asked]
) -> str:
    if rule is None:
        return "no rule asks for one"
    if commit.action not in SAVEPOINTABLE:
        return f"a {commit.action} can't have a savepoint"
    before = [earlier for earlier in asked if earlier[1] <= at]
    if rule.min_gap and before and at < before[-1][1] + rule.min_gap:
        return f"within {span(rule.min_gap)} of the one on commit {before[-1][0].instant}"
    return "; ".join(_not_due(tier, commit, at, before) for tier in rule.tiers)


def _not_due(
    tier: TierRule, commit: CommitCompleted, at: datetime, before: Sequence[_Asked]
) -> str:
    if tier.tier in OPERATIONS:
        wanted = ", ".join(tier.operations)
        return f"{tier.tier} {wanted}: its operation is {commit.operation or 'not named'}"
    if tier.tier is Tier.EVERY_N:
        return f"{tier.tier}: one for {tier.commits} commits"
    if tier.tier in PERIODIC:
        period = period_of(tier.tier, at)
        same = [c for c, then, request in before if tier.tier in request.tiers
                and period_of(tier.tier, then) == period]  # fmt: skip
        of = f"commit {same[-1].instant}" if same else "an earlier commit, or this one is too old"
        return f"{tier.tier}: the savepoint of {period} is on {of}"
    return f"{tier.tier}: the policy has not read it yet, or it was published before"


def _sentence(policy: SavepointPolicy, rule: PolicyRule | None, table: str) -> str:
    covering = next((n for n, rule in enumerate(policy.rules, 1) if rule.covers(table)), None)
    if covering is None:
        return "no rule of [[savepoints]] covers this table: savepoints on request only"
    found = policy.rules[covering - 1]
    named = f"rule {covering} of [[savepoints]] (policy {found.name}, tables {found.pattern!r})"
    if rule is None:
        return f"{named}: savepoints on request only"
    parts = [_described(tier) for tier in rule.tiers]
    parts += [f"at least {span(rule.min_gap)} apart"] if rule.min_gap else []
    parts += [f"at most {rule.max_count} in all"] if rule.max_count else []
    return f"{named}: {', '.join(parts)}"


def _described(tier: TierRule) -> str:
    named = f"every {tier.commits} commits" if tier.tier is Tier.EVERY_N else str(tier.tier)
    if tier.operations:
        named += f" {', '.join(tier.operations)}"
    keep = [f"the newest {tier.keep}"] if tier.keep else []
    keep += [f"for {span(tier.lifetime)}"] if tier.lifetime else []
    return f"{named} (retained: {' '.join(keep) or 'forever'})"


def _decoded(events: Iterable[LoggedEvent]) -> Iterator[tuple[object, datetime]]:
    return ((event.event, event.at) for event in events if event.event is not None)


def _commits(events: Iterable[LoggedEvent]) -> Iterator[tuple[CommitCompleted, datetime]]:
    return ((e, at) for e, at in _decoded(events) if isinstance(e, CommitCompleted))


def _once(
    commits: Iterable[tuple[CommitCompleted, datetime]],
) -> Iterator[tuple[CommitCompleted, datetime]]:
    """The commits without repeated publications."""
    seen: set[str] = set()
    for commit, at in commits:
        if commit.event_id not in seen:
            seen.add(commit.event_id)
            yield commit, at
