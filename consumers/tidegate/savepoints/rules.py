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
    """The period (UTC) of a moment, as a text that sorts like the periods."""
    return at.strftime(_PERIODS[tier])


class TierRule(Value, frozen=True):
    """A tier of a policy, and which savepoints it keeps.

    It keeps the newest `keep` savepoints (counting only the newest of a period), each for its
    lifetime. Without both, it keeps all of them forever. It always keeps the newest one.
    """

    tier: Tier
    keep: int | None = Field(default=None, ge=1)
    lifetime: timedelta | None = None
    commits: int = Field(default=1, ge=1)
    """For EVERY_N: the number of commits per savepoint."""
    operations: tuple[str, ...] = ()
    """For BEFORE and AFTER: shell patterns of the operations."""

    @property
    def is_forever(self) -> bool:
        """Whether its savepoints are never removed."""
        return self.keep is None and self.lifetime is None

    def matches(self, operation: str | None) -> bool:
        """Whether a commit's operation matches one of this tier's patterns."""
        name = (operation or "").lower()
        return bool(name) and any(
            fnmatchcase(name, operation.lower()) for operation in self.operations
        )


class PolicyRule(Value, frozen=True):
    """A policy for the tables whose identity matches `pattern` (`*`, `?` and `[...]`).

    Without tiers, savepoints are made on request only. `max_count` limits the policy's savepoints
    on a table. It includes the newest of every tier, so it is at least the number of tiers. Within
    `min_gap` after a savepoint by the policy, only BEFORE and AFTER make another one.
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
        """The rule of a tier; None if the policy does not have (or no longer has) that tier."""
        return next((tier for tier in self.tiers if tier.tier == name), None)


class SavepointPolicy(Value, frozen=True):
    """Rules in order: the first that covers a table applies. By default, only on request."""

    rules: tuple[PolicyRule, ...] = ()

    def rule_of(self, table: str) -> PolicyRule | None:
        """The rule of a table; None if there is none or it has no tiers."""
        found = next((rule for rule in self.rules if rule.covers(table)), None)
        return found if found and found.tiers else None
