"""Savepoint policies: which tables get savepoints when, and how long they are kept. Pure values."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from pydantic import Field

from tidegate.events import Value
from tidegate.events.limits import Text
from tidegate.events.savepoint_marks import PolicyName


class Tier(StrEnum):
    """Why a policy makes a savepoint. A savepoint may be of several tiers."""

    EVERY_COMMIT = "every-commit"
    EVERY_N = "every-n"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    BEFORE = "before"
    """On the commit that preceded an operation."""
    AFTER = "after"
    """On the commit of an operation."""


_PERIODS: Final = {
    Tier.HOURLY: "%Y-%m-%dT%H",
    Tier.DAILY: "%Y-%m-%d",
    Tier.WEEKLY: "%G-W%V",
    Tier.MONTHLY: "%Y-%m",
}
PERIODIC: Final = frozenset(_PERIODS)
OPERATIONS: Final = frozenset({Tier.BEFORE, Tier.AFTER})


def period_of(tier: Tier, at: datetime) -> str:
    """The period (UTC) in which a moment lies, as a text that orders as the periods do."""
    return at.strftime(_PERIODS[tier])


class TierRule(Value, frozen=True):
    """A tier of a policy, and what it keeps.

    Of its savepoints the newest `keep` are kept (of a period, the newest savepoint counts), each
    for its lifetime. With neither, all are kept for ever. The newest of all always is.
    """

    tier: Tier
    keep: int | None = Field(default=None, ge=1)
    lifetime: timedelta | None = None
    commits: int = Field(default=1, ge=1)
    """Of EVERY_N: one savepoint for so many commits."""
    operations: tuple[str, ...] = ()
    """Of BEFORE and AFTER: shell patterns of the operations."""

    @property
    def is_forever(self) -> bool:
        """Whether nothing of it is ever removed."""
        return self.keep is None and self.lifetime is None

    def matches(self, operation: str | None) -> bool:
        """Whether a commit's operation is one that this tier is about."""
        name = (operation or "").lower()
        return bool(name) and any(
            fnmatchcase(name, operation.lower()) for operation in self.operations
        )


class PolicyRule(Value, frozen=True):
    """A policy for the tables whose identity matches `pattern` (`*`, `?` and `[...]`).

    Without tiers there are savepoints on request only. `max_count` is how many of the policy's
    savepoints a table may have; each tier's newest is among them, so it is not below the number of
    tiers. `min_gap` after any savepoint by the policy only BEFORE and AFTER make another.
    """

    name: PolicyName = "default"
    pattern: Text
    tiers: tuple[TierRule, ...] = ()
    min_gap: timedelta = timedelta(0)
    max_count: int | None = Field(default=None, ge=1)

    def covers(self, table: str) -> bool:
        """Whether this rule applies to a table (`catalog.database.table`, lower case)."""
        return fnmatchcase(table, self.pattern.lower())

    def tier(self, name: str) -> TierRule | None:
        """The rule of a tier; None where the policy has no such tier (any more)."""
        return next((tier for tier in self.tiers if tier.tier == name), None)


class SavepointPolicy(Value, frozen=True):
    """Rules in order: the first that covers a table applies; by default on request only."""

    rules: tuple[PolicyRule, ...] = ()

    def rule_of(self, table: str) -> PolicyRule | None:
        """The rule of a table, if it has any tier."""
        found = next((rule for rule in self.rules if rule.covers(table)), None)
        return found if found and found.tiers else None
