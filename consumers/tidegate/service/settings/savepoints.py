"""Savepoint policies in the settings: `[[savepoints]]`, a rule for each pattern of tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tidegate.events.fields import Name, parse_duration
from tidegate.events.savepoints import PolicyName
from tidegate.tables.settings import Duration, Section

FOREVER: Final = "forever"
_EXAMPLE: Final = 'e.g. lifetime = "30d", or lifetime = "forever"'


def _lifetime(value: object) -> object:
    if value == FOREVER or not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError('neither "forever" nor a duration such as 12h, 30d or 4w') from None


Lifetime = Annotated[Duration | Literal["forever"], BeforeValidator(_lifetime)]
"""Text such as 30d; or "forever", which keeps Hudi from cleaning without end."""


class _TierSettings(Section, frozen=True):
    """The retention of a tier: the newest `keep`, each for `lifetime`; at least one of the two."""

    keep: int | None = Field(default=None, ge=1)
    """How many: the newest, of a period the newest in it."""
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


_TIERS: Final = ("every_commit", "every_n", "hourly", "daily", "weekly", "monthly")
_ALL_TIERS: Final = (*_TIERS, "before", "after")


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
    full_every: int = Field(default=25, ge=1, le=25)
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

    def tiers(self) -> dict[str, _TierSettings]:
        """The tiers by name, each with its lifetime filled in."""
        found = {name: getattr(self, name) for name in _ALL_TIERS}
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
        named = [name for name in _ALL_TIERS if getattr(self, name) is not None]
        if self.when == "every_commit" and self.lifetime is None:
            return (
                'when = "every_commit" keeps every file of a table forever, so that Hudi cleans'
                f" nothing: say how long its savepoints are kept, {_EXAMPLE}"
            )
        if self.when is not None and named:
            return f'when = "{self.when}" contradicts {", ".join(named)}: leave `when` out'
        if self.when is None and not named:
            tiers = ", ".join(_ALL_TIERS)
            return f'say when: one or more of {tiers}; or when = "on_request"'
        if self.when == "on_request":
            given = sorted({"lifetime", "max_count", "min_gap"} & self.model_fields_set)
            if given:
                return f'when = "on_request" has no use for {", ".join(given)}'
        return None

    def _unlimited(self) -> str | None:
        tiers = self.tiers()
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
        tiers, most = self.tiers(), self.max_count
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
