"""Savepoint policies: `[[savepoints]]` in the settings, a rule for each pattern of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tidegate.events.fields import Name, parse_duration
from tidegate.events.savepoints import PolicyName
from tidegate.tables.settings import Duration, Section, covers_name


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


@dataclass(frozen=True, slots=True)
class TierRule:
    """A tier of a policy, and which savepoints it keeps.

    It keeps the newest `keep` savepoints (of a period only the first), each for its lifetime.
    Without both, it keeps all of them forever. It always keeps the newest one.
    """

    tier: Tier
    keep: int | None = None
    lifetime: timedelta | None = None
    commits: int = 1
    """For EVERY_N: the number of commits per savepoint."""
    operations: tuple[str, ...] = ()
    """For BEFORE and AFTER: shell patterns of the operations."""

    def matches(self, operation: str | None) -> bool:
        """Whether a commit's operation matches one of this tier's patterns."""
        name = (operation or "").lower()
        return bool(name) and any(
            fnmatchcase(name, operation.lower()) for operation in self.operations
        )


FOREVER: Final = "forever"
_EXAMPLE: Final = 'e.g. lifetime = "30d", or lifetime = "forever"'


def _lifetime(value: object) -> object:
    if value == FOREVER or isinstance(value, (float, timedelta)) or type(value) is int:
        return value
    try:
        return parse_duration(str(value))
    except ValueError:
        raise ValueError('neither "forever" nor a duration such as 12h, 30d or 4w') from None


Lifetime = Annotated[Duration | Literal["forever"], BeforeValidator(_lifetime)]
"""Text such as 30d; or "forever", which keeps Hudi from cleaning without end."""


class _TierSettings(Section, frozen=True):
    """The retention of a tier: the newest `keep`, each for `lifetime`; at least one of the two."""

    keep: int | None = Field(default=None, ge=1)
    """How many: the newest, of a period the first in it."""
    lifetime: Lifetime | None = None
    """How long each: 12h, 30d, 4w, or "forever"; by default the rule's, unless `keep` is given."""


class _EveryNSettings(_TierSettings, frozen=True):
    """A savepoint for every N commits."""

    commits: int = Field(ge=2)
    """N."""


class _OperationSettings(_TierSettings, frozen=True):
    """A savepoint before or after operations, as the commits' events name them."""

    operations: tuple[str, ...] = Field(min_length=1)
    """Shell patterns, e.g. delete* or insert_overwrite*."""


_TIERS: Final = tuple(tier.replace("-", "_") for tier in Tier)
"""The names of the tiers in the settings."""


class SavepointRule(Section, frozen=True):
    """A policy: when tables get savepoints automatically, and how long these are kept.

    The first rule whose pattern matches a table applies to it. The newest savepoint of each tier is
    always retained, and so is every savepoint that a person requested.
    """

    tables: Name
    """A shell pattern of the tables, as catalog.database.table."""
    policy: PolicyName = "default"
    """The policy's name. Its savepoints carry it, and the policy removes only those."""
    adopts: tuple[PolicyName, ...] = ()
    """Earlier names of this policy: it keeps and removes their savepoints as its own."""
    when: Literal["every_commit", "on_request"] | None = None
    """Short for `every_commit = {}`; or that there are savepoints on request only."""
    lifetime: Lifetime | None = None
    """The lifetime of tiers that have neither `keep` nor a lifetime of their own."""
    max_count: int | None = Field(default=None, ge=1)
    """The most savepoints that the policy has on one table; by default there is no limit.

    Above it no savepoint is made, and a CommitFlagged outcome names the commit. None is removed.
    """
    min_gap: Duration | None = Field(default=None, ge=timedelta(0))
    """The shortest time between two savepoints of the policy, except before and after operations.

    It protects from storms of commits: a due savepoint is made at the first commit after the gap.
    """
    full_every: int = Field(default=MOST_DERIVED + 1, ge=1, le=MOST_DERIVED + 1)
    """At least one of this many savepoints of a table lists all files; the others are derived. A
    listing notices a file that was removed by hand. 1: every savepoint lists all files."""
    every_commit: _TierSettings | None = None
    """A savepoint of every commit."""
    every_n: _EveryNSettings | None = None
    """A savepoint of every Nth commit."""
    hourly: _TierSettings | None = None
    """A savepoint of the first commit of each hour (UTC, by the broker's time)."""
    daily: _TierSettings | None = None
    """A savepoint of the first commit of each day."""
    weekly: _TierSettings | None = None
    """A savepoint of the first commit of each week, from Monday."""
    monthly: _TierSettings | None = None
    """A savepoint of the first commit of each month."""
    before: _OperationSettings | None = None
    """A savepoint of the commit before each of these operations.

    The event says that the operation has completed, so the savepoint is made then, of the commit
    that preceded it, as long as Hudi has not cleaned its files.
    """
    after: _OperationSettings | None = None
    """A savepoint of the commit of each of these operations."""

    @cached_property
    def tiers(self) -> tuple[TierRule, ...]:
        """What the policy keeps; without tiers, savepoints are made on request only."""
        return tuple(
            TierRule(
                Tier(name.replace("_", "-")),
                tier.keep,
                tier.lifetime if isinstance(tier.lifetime, timedelta) else None,
                **tier.model_dump(include={"commits", "operations"}),
            )
            for name, tier in self._given().items()
        )

    @property
    def most_derived(self) -> int:
        """Maximum of savepoints of a table that are derived in a row."""
        return self.full_every - 1

    @property
    def reads_operations(self) -> bool:
        """Whether the operations of commits matter."""
        return any(tier.tier in OPERATIONS for tier in self.tiers)

    def owns(self, policy: str | None) -> bool:
        """Whether savepoints that name this policy are this rule's."""
        return policy is not None and policy in {self.policy, *self.adopts}

    def _given(self) -> dict[str, _TierSettings]:
        """The tiers by name, each with its lifetime filled in."""
        found = {name: getattr(self, name) for name in _TIERS}
        if self.when == "every_commit":
            found["every_commit"] = _TierSettings()
        return {name: self._completed(tier) for name, tier in found.items() if tier is not None}

    def _completed(self, tier: _TierSettings) -> _TierSettings:
        if tier.keep is not None or tier.lifetime is not None:
            return tier
        return tier.model_copy(update={"lifetime": self.lifetime})

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for problem in (self._when(), self._unlimited(), self._counts()):
            if problem:
                raise ValueError(problem)
        return self

    def _when(self) -> str | None:
        named = [name for name in _TIERS if getattr(self, name) is not None]
        if self.when == "every_commit" and self.lifetime is None:
            return (
                'when = "every_commit" keeps every file of a table forever, so that Hudi cleans'
                f" nothing: say how long its savepoints are kept, {_EXAMPLE}"
            )
        if self.when is not None and named:
            return f'when = "{self.when}" contradicts {", ".join(named)}: leave `when` out'
        if self.when is None and not named:
            tiers = ", ".join(_TIERS)
            return f'say when: one or more of {tiers}; or when = "on_request"'
        if self.when == "on_request":
            given = sorted({"lifetime", "max_count", "min_gap"} & self.model_fields_set)
            if given:
                return f'when = "on_request" has no use for {", ".join(given)}'
        return None

    def _unlimited(self) -> str | None:
        tiers = self._given()
        for name, tier in tiers.items():
            if tier.keep is None and tier.lifetime is None:
                return (
                    f"{name} has no end: Hudi would never clean what its savepoints keep. Give keep"
                    f" or lifetime, {_EXAMPLE}"
                )
            if tier.lifetime == FOREVER and tier.keep is not None:
                return f'{name}: keep = {tier.keep} and lifetime = "forever" contradict each other'
            if tier.lifetime == timedelta(0):
                return f"{name}: a lifetime of nothing"
        if self.lifetime is not None and all(
            tier.lifetime != self.lifetime for tier in tiers.values()
        ):
            return "no tier uses this lifetime: all of them have keep or a lifetime of their own"
        return None

    def _counts(self) -> str | None:
        tiers, most = self._given(), self.max_count
        if most is None:
            return None
        if most < len(tiers):
            return (
                f"max_count ({most}) is less than the number of tiers ({len(tiers)}), each of which"
                " always keeps its newest savepoint"
            )
        kept = sum(tier.keep or 0 for tier in tiers.values())
        if most < kept:
            return f"max_count ({most}) is less than what the tiers keep together ({kept})"
        return None


def covering(rules: Iterable[SavepointRule], table: str) -> SavepointRule | None:
    """The first rule that covers a table; None: savepoints on request only."""
    return next((rule for rule in rules if covers_name(rule.tables, table)), None)


def rule_of(rules: Iterable[SavepointRule], table: str) -> SavepointRule | None:
    """The rule of a table; None if there is none or it has no tiers."""
    found = covering(rules, table)
    return found if found and found.tiers else None
