"""Settings of restores: who may request them, which need an approval, and who executes them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from tidegate.events.fields import Name
from tidegate.tables.settings import Seconds, Section, covers_name, covers_place

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
STORAGE_LOCKS: Final = ".hoodie/.locks"
_DAY: Final = 86_400
_LONGEST: Final = 21 * _DAY
"""Less than the 31 days for which the coordinator remembers a request: an approval needs it."""


class RestoreRule(Section, frozen=True):
    """What a restore of some tables needs in addition to its request, and who executes it.

    The first rule that covers a table applies. A rule with `tables` and `locations` needs both.
    """

    tables: Name = "*"
    """A shell pattern of the tables, as catalog.database.table. Rules about approvals need
    locations instead, because the requester chooses the catalog's name."""
    locations: tuple[str, ...] = ()
    """Directories; a rule covers the tables in them, at any depth. `*` stands for any part of one
    name: `/lake/*/sales`. By default it covers all locations."""
    approval: bool = False
    """Whether a second person has to approve each restore (`tidegate publish approval`)."""
    approved_by: tuple[Name, ...] = Field(default=("*",), min_length=1)
    """Shell patterns of the people who may approve, matched with the verified name if commands are
    signed. A requester can't approve their own request."""
    approve_within: Seconds = Field(default=_DAY, ge=60, le=_LONGEST)
    """How long after the request an approval counts, by the broker's times of the two, in seconds
    or as text with a unit: `24h`; at most 21 days."""

    condemned: Literal["nothing", "plan", "restore"] = "nothing"
    """The reaction to a commit that its writer condemns (`CommitCondemned`). plan: publish the plan
    of a restore to the newest known savepoint before the commit. restore: request that restore,
    which then waits for its approval."""
    engine: Literal["tidegate", "hudi"] = "tidegate"
    """Who executes it: Tidegate; or Hudi's own procedure `rollback_to_savepoint` in the Spark
    session of `[spark]`, after the same checks, for bootstrapped tables and others that Tidegate
    refuses. The session then needs Hudi's bundle (`spark.driver.extraClassPath`) and
    `spark.sql.extensions`. Slower than Tidegate's."""

    @field_validator("locations")
    @classmethod
    def _are_absolute(cls, locations: tuple[str, ...]) -> tuple[str, ...]:
        for location in locations:
            if not _ABSOLUTE.match(location) or ".." in location.split("/"):
                raise ValueError(f"not an absolute path or URI without '..': {location!r}")
            if "**" in location:
                raise ValueError(f"* stands for one name, and so would **: {location!r}")
        return locations

    @property
    def within(self) -> timedelta:
        """How long after the request an approval counts."""
        return timedelta(seconds=self.approve_within)

    @property
    def about(self) -> str:
        """What it covers, for messages."""
        return ", ".join(self.locations) or self.tables

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if not self.tables or not {"tables", "locations"} & self.model_fields_set:
            raise ValueError("say locations or tables")
        if "locations" in self.model_fields_set and not self.locations:
            raise ValueError("locations has no directory: leave it out to cover all")
        if not {"approval", "condemned", "engine"} & self.model_fields_set:
            raise ValueError("say approval, condemned or engine")
        if self.condemned == "restore" and not self.approval:
            raise ValueError(
                'condemned = "restore" needs approval = true: otherwise every publisher of commits'
                " could have the table restored"
            )
        given = sorted({"approved_by", "approve_within"} & self.model_fields_set)
        if not self.approval and given:
            raise ValueError(f"approval = false has no use for {', '.join(given)}")
        return self


class RestoreSettings(Section, frozen=True):
    """Who may request restores, and how long a pending write is watched before one.

    `requested_by` has shell patterns, matched with the name in a request.
    """

    requested_by: tuple[Name, ...] = ("*",)
    """Shell patterns of the people whose requests are executed."""
    watch_seconds: float = Field(default=5, ge=0, allow_inf_nan=False)
    """How long a pending write is watched for signs of life before a restore."""
    lock_files: tuple[str, ...] = (".hoodie/lock",)
    """Where writers with Hudi's FileSystemBasedLockProvider keep their lock, below each table
    (`hoodie.write.lock.filesystem.path` and `/lock`). A restore is refused while one is there."""
    lock_expiry: Seconds | None = Field(default=None, ge=60)
    """The age at which such a lock counts as abandoned (`hoodie.write.lock.filesystem.expire`,
    there in minutes), in seconds or as text with a unit. By default never, as in Hudi."""
    hold_lock: bool = False
    """Whether to hold the locks of Hudi's writers while a restore runs, so that they wait for its
    end. FileSystemBasedLockProvider: the first of `lock_files`. After a SIGKILL the next restore of
    the table takes it over; where none comes, remove the file. StorageBasedLockProvider, on object
    stores: its lock is renewed, and ends five minutes after a SIGKILL."""
    rules: tuple[RestoreRule, ...] = ()
    """Rules for some tables; the first that covers a table applies. Without a rule no approval is
    needed, and Tidegate executes restores itself."""

    def rule_of(self, table: str | None, *spellings: str) -> RestoreRule | None:
        """The first rule that covers a table, or None.

        Args:
            table: Its name; None: the locations alone decide, as for approvals, because the
                requester chooses the name in a request.
            spellings: Its location, normalised; it is enough if one matches.
        """
        matching = (
            rule
            for rule in self.rules
            if (table is None or covers_name(rule.tables, table))
            and covers_place(rule.locations, *spellings)
        )
        return next(matching, None)

    def are_by_hudi(self, table: str, *spellings: str) -> bool:
        """Whether Hudi's own procedure restores the table with this name and location."""
        rule = self.rule_of(table, *spellings)
        return rule is not None and rule.engine == "hudi"

    @property
    def checked_locks(self) -> list[str]:
        """The locks that are checked, relative to the table; other locks go unnoticed."""
        return [*self.lock_files, f"{STORAGE_LOCKS}/*.json"]

    @field_validator("lock_files")
    @classmethod
    def _are_below_the_table(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        for file in files:
            if not all(name not in {"", ".", ".."} for name in file.split("/")) or ":" in file:
                raise ValueError(f"not a relative path below a table: {file!r}")
        return files

    @model_validator(mode="after")
    def _names_the_lock_to_hold(self) -> Self:
        if self.hold_lock and not self.lock_files:
            raise ValueError("hold_lock = true needs lock_files: the first of them is held")
        return self

    @model_validator(mode="after")
    def _states_approval_before_later_rules(self) -> Self:
        """Refuse a rule without `approval` before a rule that requires one."""
        for place, rule in enumerate(self.rules):
            is_explicit = "approval" in rule.model_fields_set
            later = next((rule for rule in self.rules[place + 1 :] if rule.approval), None)
            if not is_explicit and later is not None:
                raise ValueError(
                    f"the rule for {rule.about} decides before the one for {later.about}, which"
                    " asks for approvals: say approval = true or approval = false in it, too"
                )
        return self

    @model_validator(mode="after")
    def _decides_on_approvals_by_place(self) -> Self:
        """Refuse names in rules that ask for approvals, and in those that decide before them."""
        last = max((n for n, rule in enumerate(self.rules) if rule.approval), default=-1)
        for rule in self.rules[: last + 1]:
            if rule.tables != "*":
                raise ValueError(
                    f"the rule for {rule.tables} decides by name whether an approval is needed, and"
                    " a request may call the table by another catalog: write locations instead,"
                    ' e.g. locations = ["/lake/sales"]'
                )
        return self
