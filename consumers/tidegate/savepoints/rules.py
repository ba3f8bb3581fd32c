"""What settings say of savepoints: policies. Pure values."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from pydantic import Field

from tidegate.events import Value
from tidegate.events.fields import Text
from tidegate.events.savepoints import PolicyName


class Tier(StrEnum):
    """Why a policy makes a savepoint. A savepoint may serve several tiers."""

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


MOST_DERIVED: Final = 24
"""Maximum of savepoints derived in a row. The next one lists everything, which detects files that
were removed by hand from a partition without other changes."""
_DIGITS: Final = {Tier.HOURLY: 10, Tier.DAILY: 8, Tier.MONTHLY: 6}
"""How many digits of an instant (yyyyMMddHHmmssSSS) name its period."""
PERIODIC: Final = frozenset({*_DIGITS, Tier.WEEKLY})
OPERATIONS: Final = frozenset({Tier.BEFORE, Tier.AFTER})


def period_of(tier: Tier, instant: str) -> str:
    """The period of an instant, in the zone of the table's own instants; weeks begin on Monday."""
    return _week_of(instant[:8]) if tier is Tier.WEEKLY else instant[: _DIGITS[tier]]


@lru_cache(maxsize=10_000)
def _week_of(day: str) -> str:
    try:
        year, week, _ = date.fromisoformat(day).isocalendar()
    except ValueError:  # an instant is digits, which need not be a date
        return day
    return f"{year}-{week:02d}"


class TierRule(Value, frozen=True):
    """A tier of a policy, and which savepoints it keeps.

    It keeps the newest `keep` savepoints (of a period only the first), each for its lifetime.
    Without both, it keeps all of them forever. It always keeps the newest one.
    """

    tier: Tier
    keep: int | None = Field(default=None, ge=1)
    lifetime: timedelta | None = None
    commits: int = Field(default=1, ge=1)
    """For EVERY_N: the number of commits per savepoint."""
    operations: tuple[str, ...] = ()
    """For BEFORE and AFTER: shell patterns of the operations."""

    def matches(self, operation: str | None) -> bool:
        """Whether a commit's operation matches one of this tier's patterns."""
        name = (operation or "").lower()
        return bool(name) and any(
            fnmatchcase(name, operation.lower()) for operation in self.operations
        )


class PolicyRule(Value, frozen=True):
    """A policy for the tables whose identity matches `pattern` (`*`, `?` and `[...]`).

    Without tiers, savepoints are made on request only. With `max_count`, the policy makes no
    savepoint beyond that number; it removes none for it. Within `min_gap` of a savepoint of the
    policy, only BEFORE and AFTER make another one.
    """

    name: PolicyName = "default"
    pattern: Text
    tiers: tuple[TierRule, ...] = ()
    min_gap: timedelta = timedelta(0)
    max_count: int | None = Field(default=None, ge=1)
    adopts: tuple[PolicyName, ...] = ()
    """Earlier names of the policy: their savepoints are its own."""
    most_derived: int = Field(default=MOST_DERIVED, ge=0)
    """Maximum of savepoints of a table that are derived in a row."""

    def covers(self, table: str) -> bool:
        """Whether this rule applies to a table (`catalog.database.table`, lower case)."""
        return fnmatchcase(table, self.pattern.lower())

    def owns(self, policy: str | None) -> bool:
        """Whether savepoints that name this policy are this rule's."""
        return policy is not None and policy in {self.name, *self.adopts}

    @property
    def reads_operations(self) -> bool:
        """Whether the operations of commits matter."""
        return any(tier.tier in OPERATIONS for tier in self.tiers)


class SavepointPolicy(Value, frozen=True):
    """Rules in order: the first that covers a table applies. By default, only on request."""

    rules: tuple[PolicyRule, ...] = ()

    def rule_of(self, table: str) -> PolicyRule | None:
        """The rule of a table; None if there is none or it has no tiers."""
        found = self._covering(table)
        return found if found and found.tiers else None

    def most_derived(self, table: str) -> int:
        """Maximum of savepoints of a table that are derived in a row."""
        found = self._covering(table)
        return MOST_DERIVED if found is None else found.most_derived

    def _covering(self, table: str) -> PolicyRule | None:
        return next((rule for rule in self.rules if rule.covers(table)), None)
