"""What settings say of savepoints: policies, and the reaction to condemned commits. Pure values.

Any writer may publish that a commit is condemned, so that event alone never changes a table: the
plan only shows what a restore would do, and the restore waits for a person's approval.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from pydantic import Field

from tidegate.errors import FormatError
from tidegate.events import Value
from tidegate.events.fields import Text
from tidegate.events.savepoints import PolicyName
from tidegate.tables.scope import covers_name, covers_place


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
        found = next((rule for rule in self.rules if rule.covers(table)), None)
        return found if found and found.tiers else None


class CondemnedAction(StrEnum):
    """The reaction to a condemned commit."""

    NOTHING = "nothing"
    PLAN = "plan"
    """The plan of a restore to the newest known savepoint before the commit is requested."""
    RESTORE = "restore"
    """That restore is requested; it waits for the approval of a person."""


class CondemnedRule(Value, frozen=True):
    """The reaction for the tables whose identity matches `tables` (`*`, `?` and `[...]`)."""

    tables: Text = "*"
    locations: tuple[Text, ...] = ()
    """Normalised directories; the table lies in one of them. Empty: anywhere."""
    action: CondemnedAction


class CondemnedRules(Value, frozen=True):
    """Rules in order: the first whose pattern matches a table decides; by default nothing."""

    rules: tuple[CondemnedRule, ...] = ()
    normalise: Callable[[str], str] = str
    """Returns a location in the canonical spelling of the rules, or raises FormatError."""

    def action_of(self, table: str, location: str) -> CondemnedAction:
        """The reaction for a table (`catalog.database.table`) at a location in any spelling."""
        try:
            location = self.normalise(location)
        except FormatError:
            location = ""  # covered by none of the directories
        matching = (
            rule
            for rule in self.rules
            if covers_name(rule.tables, table) and covers_place(rule.locations, location)
        )
        found = next(matching, None)
        return CondemnedAction.NOTHING if found is None else found.action
