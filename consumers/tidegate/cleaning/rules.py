"""Decides whether a table's cleaning deletes or quarantines, and for how long. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final

from tidegate.events import CleaningMode, CleaningReleased

KEEP: Final = timedelta(hours=72)
"""How long a quarantine lasts by default: a weekend."""


@dataclass(frozen=True, slots=True)
class CleaningRule:
    """How to clean the tables whose name matches a shell pattern."""

    tables: str
    mode: CleaningMode
    keep: timedelta | None = None
    """How long a quarantine lasts; None: the default of the settings."""


@dataclass(frozen=True, slots=True)
class Handling:
    """How one cleaning proceeds; `why` is for people."""

    mode: CleaningMode
    keep: timedelta
    why: str

    @property
    def keep_ms(self) -> int | None:
        """How long the quarantine lasts, in milliseconds; None without a quarantine."""
        if self.mode is CleaningMode.DELETE:
            return None
        return self.keep // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """The settings of cleaning. The first rule whose pattern matches applies.

    The reader of an expired hold may be alive but stalled. So `after_expiry` applies if the rule
    would delete.
    """

    rules: tuple[CleaningRule, ...] = ()
    mode: CleaningMode = CleaningMode.DELETE
    after_expiry: CleaningMode = CleaningMode.QUARANTINE
    keep: timedelta = KEEP

    def handling(self, command: CleaningReleased) -> Handling:
        """How to clean the directories that this command releases."""
        rule = next((rule for rule in self.rules if fnmatchcase(command.table, rule.tables)), None)
        keep = self.keep if rule is None or rule.keep is None else rule.keep
        mode = self.mode if rule is None else rule.mode
        why = "the settings quarantine what is cleaned of this table"
        if mode is CleaningMode.DELETE and command.after_expiry:
            mode = self.after_expiry
            why = "a lock or transaction expired: its reader may be alive, only stalled"
        return Handling(mode, keep, why)

    @property
    def may_quarantine(self) -> bool:
        """Whether anything can be quarantined at all."""
        modes = {self.mode, self.after_expiry, *(rule.mode for rule in self.rules)}
        return CleaningMode.QUARANTINE in modes
