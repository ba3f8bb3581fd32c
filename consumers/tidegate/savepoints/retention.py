"""Which savepoints have expired. Pure.

A policy removes only its own savepoints. A person's savepoint stays unless it has a lifetime, and
another policy's savepoint stays, too. Every tier retains its newest savepoint at any age: once a
table gets no more commits, its last backups must not disappear one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, Protocol

from tidegate.savepoints.rules import PERIODIC, PolicyRule, TierRule, period_of

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_BY_AGE: Final = attrgetter("since", "instant")


class RetainedSavepoint(Protocol):
    """A savepoint as the retention rules see it."""

    @property
    def instant(self) -> str:
        """The savepointed commit."""
        ...

    @property
    def policy(self) -> str | None:
        """The policy that made it; None: a person made it, or the maker is unknown."""
        ...

    @property
    def tiers(self) -> Sequence[str]:
        """The tiers of that policy."""
        ...

    @property
    def since(self) -> datetime:
        """The start of its age: the broker's time of its cause."""
        ...

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wanted it kept."""
        ...


@dataclass(frozen=True, slots=True)
class Removal:
    """An expired savepoint, and why it has expired."""

    instant: str
    why: str


def end_of(since: datetime, lifetime: timedelta) -> datetime:
    """When a lifetime ends, at most the last representable time."""
    try:
        return since + lifetime
    except OverflowError:  # a mark may have any year
        return _NEVER


def newest_of_tiers(rule: PolicyRule, savepoints: Iterable[RetainedSavepoint]) -> frozenset[str]:
    """The newest savepoint of every tier of the policy; these always stay."""
    own = own_of(rule, savepoints)
    newest = (_of_tier(tier, own)[-1:] for tier in rule.tiers)
    return frozenset(savepoint.instant for found in newest for savepoint in found)


def own_of(rule: PolicyRule, savepoints: Iterable[RetainedSavepoint]) -> list[RetainedSavepoint]:
    """The savepoints that the policy made, oldest first."""
    return sorted(
        (savepoint for savepoint in savepoints if savepoint.policy == rule.name), key=_BY_AGE
    )


def removals(
    rule: PolicyRule | None, savepoints: Sequence[RetainedSavepoint], now: datetime
) -> tuple[Removal, ...]:
    """The savepoints to remove, oldest first.

    Args:
        rule: The table's policy, if it has one.
        savepoints: The table's completed savepoints, of all makers.
        now: The broker's time.
    """
    found = {
        savepoint.instant: f"its lifetime of {savepoint.lifetime} is over"
        for savepoint in savepoints
        if savepoint.policy is None
        and savepoint.lifetime is not None
        and end_of(savepoint.since, savepoint.lifetime) <= now
    }
    if rule is not None:
        found |= _of_policy(rule, own_of(rule, savepoints), now)
    ordered = sorted(savepoints, key=_BY_AGE)
    return tuple(Removal(s.instant, found[s.instant]) for s in ordered if s.instant in found)


def _of_policy(rule: PolicyRule, own: Sequence[RetainedSavepoint], now: datetime) -> dict[str, str]:
    held = newest_of_tiers(rule, own).union(*(_held(tier, own, now) for tier in rule.tiers))
    configured = {tier.tier for tier in rule.tiers}
    # savepoints of tiers that the settings no longer have count, but don't expire
    over = {
        savepoint.instant: f"policy {rule.name} no longer keeps it for {', '.join(savepoint.tiers)}"
        for savepoint in own
        if savepoint.instant not in held and configured.intersection(savepoint.tiers)
    }
    return over | _over_maximum(rule, own, over)


def _held(tier: TierRule, own: Sequence[RetainedSavepoint], now: datetime) -> set[str]:
    """The instants of the savepoints that a tier keeps."""
    found = _of_tier(tier, own)
    if tier.keep is not None:
        found = found[-tier.keep :]
    lifetime = tier.lifetime
    return {
        savepoint.instant
        for savepoint in found
        if lifetime is None or end_of(savepoint.since, lifetime) > now
    }


def _of_tier(tier: TierRule, own: Sequence[RetainedSavepoint]) -> list[RetainedSavepoint]:
    """The savepoints of a tier, oldest first; only the newest of every period."""
    found = [savepoint for savepoint in own if tier.tier in savepoint.tiers]
    if tier.tier not in PERIODIC:
        return found
    return list({period_of(tier.tier, savepoint.since): savepoint for savepoint in found}.values())


def _over_maximum(
    rule: PolicyRule, own: Sequence[RetainedSavepoint], over: dict[str, str]
) -> dict[str, str]:
    if rule.max_count is None:
        return {}
    protected = newest_of_tiers(rule, own)
    excess = len(own) - len(over) - rule.max_count
    oldest = [s.instant for s in own if s.instant not in over and s.instant not in protected]
    why = f"policy {rule.name} has more than {rule.max_count} on the table"
    return dict.fromkeys(oldest[: max(0, excess)], why)


def expires_at(rule: PolicyRule | None, savepoint: RetainedSavepoint) -> datetime | None:
    """When its lifetime ends unless it is removed before; None: it has none, or it is unknown."""
    if savepoint.policy is None:
        lifetime = savepoint.lifetime
        return None if lifetime is None else end_of(savepoint.since, lifetime)
    if rule is None or savepoint.policy != rule.name:
        return None
    tiers = [found for name in savepoint.tiers if (found := rule.tier(name))]
    lifetimes = [tier.lifetime for tier in tiers if tier.lifetime is not None]
    if not tiers or len(lifetimes) < len(tiers):
        return None
    return end_of(savepoint.since, max(lifetimes))
