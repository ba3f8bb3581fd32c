"""Which savepoints have had their time. Pure.

A policy answers for its own savepoints only. What a person made stays, unless the person gave it a
lifetime; what names another policy stays too. Each tier keeps its newest savepoint whatever its
age: when a table gets no commits any more, its last backups must not vanish one after the other.
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


class Kept(Protocol):
    """A savepoint as the rules of retention see it."""

    @property
    def instant(self) -> str:
        """The savepointed commit."""
        ...

    @property
    def policy(self) -> str | None:
        """The policy that made it; None: a person, or nobody knows."""
        ...

    @property
    def tiers(self) -> Sequence[str]:
        """The tiers of that policy."""
        ...

    @property
    def since(self) -> datetime:
        """From when its age counts: the broker's time of its cause."""
        ...

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wanted it kept."""
        ...


@dataclass(frozen=True, slots=True)
class Removal:
    """A savepoint that has had its time, and why."""

    instant: str
    why: str


def end_of(since: datetime, lifetime: timedelta) -> datetime:
    """When a lifetime ends; the end of the calendar where it ends after that."""
    try:
        return since + lifetime
    except OverflowError:  # a mark may say any year
        return _NEVER


def newest_of_tiers(rule: PolicyRule, savepoints: Iterable[Kept]) -> frozenset[str]:
    """The newest savepoint of each tier of the policy: these stay, whatever else is said."""
    own = own_of(rule, savepoints)
    newest = (_of_tier(tier, own)[-1:] for tier in rule.tiers)
    return frozenset(each.instant for found in newest for each in found)


def own_of(rule: PolicyRule, savepoints: Iterable[Kept]) -> list[Kept]:
    """The savepoints that the policy made, oldest first."""
    return sorted(
        (savepoint for savepoint in savepoints if savepoint.policy == rule.name), key=_BY_AGE
    )


def removals(
    rule: PolicyRule | None, savepoints: Sequence[Kept], now: datetime
) -> tuple[Removal, ...]:
    """The savepoints to remove, oldest first.

    Args:
        rule: The table's policy, if it has one.
        savepoints: Those that the table has, each completed; of other makers too.
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


def _of_policy(rule: PolicyRule, own: Sequence[Kept], now: datetime) -> dict[str, str]:
    held = newest_of_tiers(rule, own).union(*(_held(tier, own, now) for tier in rule.tiers))
    configured = {tier.tier for tier in rule.tiers}
    # what was made for a tier that the settings no longer have is only counted
    over = {
        each.instant: f"policy {rule.name} keeps it no longer for {', '.join(each.tiers)}"
        for each in own
        if each.instant not in held and configured.intersection(each.tiers)
    }
    return over | _over_maximum(rule, own, over)


def _held(tier: TierRule, own: Sequence[Kept], now: datetime) -> set[str]:
    """What a tier keeps."""
    found = _of_tier(tier, own)
    if tier.keep is not None:
        found = found[-tier.keep :]
    lifetime = tier.lifetime
    return {
        each.instant for each in found if lifetime is None or end_of(each.since, lifetime) > now
    }


def _of_tier(tier: TierRule, own: Sequence[Kept]) -> list[Kept]:
    """The savepoints of a tier, oldest first; of a period only the newest."""
    found = [each for each in own if tier.tier in each.tiers]
    if tier.tier not in PERIODIC:
        return found
    return list({period_of(tier.tier, each.since): each for each in found}.values())


def _over_maximum(rule: PolicyRule, own: Sequence[Kept], over: dict[str, str]) -> dict[str, str]:
    if rule.max_count is None:
        return {}
    protected = newest_of_tiers(rule, own)
    excess = len(own) - len(over) - rule.max_count
    oldest = [s.instant for s in own if s.instant not in over and s.instant not in protected]
    why = f"policy {rule.name} has more than {rule.max_count} on the table"
    return dict.fromkeys(oldest[: max(0, excess)], why)


def expires_at(rule: PolicyRule | None, savepoint: Kept) -> datetime | None:
    """When its lifetime ends, if nothing removes it before; None: it has none, or nobody knows."""
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
