"""The settings of cleaning: whether a cleaning deletes or quarantines, and for how long. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from pydantic import Field

from tidegate.events import CleaningMode, CleaningReleased
from tidegate.events.fields import Name
from tidegate.tables.settings import Seconds, Section, covers_name


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


class _CleaningRule(Section, frozen=True):
    """How to clean obsolete directories of the tables whose name matches a shell pattern."""

    tables: Name
    """A shell pattern; of several rules the first whose pattern matches a table applies."""
    mode: CleaningMode
    """delete: at once. quarantine: move them into a hidden directory next to the others, and delete
    them after `keep`; until then `tidegate undo` puts them back."""
    keep: Seconds | None = Field(default=None, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `7d`; by default
    `cleaning.keep`."""


class CleaningSettings(Section, frozen=True):
    """Whether a cleaning deletes at once: it must on GCS, Azure, and S3 without versions."""

    mode: CleaningMode = CleaningMode.DELETE
    """For tables that no rule matches."""
    after_expiry: CleaningMode = CleaningMode.QUARANTINE
    """The mode if a rule would delete but a lock or transaction of a reader has expired. The reader
    may be alive but stalled, by a long pause or by a network outage longer than the Metastore's
    time-out. It would then read files that are gone. From quarantine they can be put back, so that
    the reader can run again; a grace time would only delay the same race. Set it to
    `delete` on GCS, on Azure, and on S3 if the bucket has no versions."""
    keep: Seconds = Field(default=72 * 3600, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `72h`. The default
    of three days covers a weekend: a cleaning of Friday can still be undone on Monday."""
    confirm_with: Literal["metastore", "quarantine", "nothing"] | None = None
    """What confirms a removal, in addition to the events, right before it. metastore: the Metastore
    of `bridge.metastore` is asked; if it contradicts, nothing is removed. quarantine: nothing is
    asked, and directories are never deleted at once. nothing: the events are believed. The default
    is the configured Metastore, else quarantine; where nothing can be quarantined (GCS, Azure, S3
    without versions), a deployment without a Metastore needs an explicit setting."""
    rules: tuple[_CleaningRule, ...] = ()
    """For some tables; the first that matches applies."""

    def handling(self, command: CleaningReleased) -> Handling:
        """How to clean the directories that this command releases."""
        rule = next((rule for rule in self.rules if covers_name(rule.tables, command.table)), None)
        keep = self.keep if rule is None or rule.keep is None else rule.keep
        mode = self.mode if rule is None else rule.mode
        why = "the settings quarantine what is cleaned of this table"
        if mode is CleaningMode.DELETE and command.after_expiry:
            mode = self.after_expiry
            why = "a lock or transaction expired: its reader may be alive, only stalled"
        return Handling(mode, timedelta(seconds=keep), why)

    @property
    def longest(self) -> timedelta:
        """The longest time of a quarantine."""
        kept = [self.keep, *(rule.keep for rule in self.rules if rule.keep is not None)]
        return timedelta(seconds=max(kept))

    @property
    def may_quarantine(self) -> bool:
        """Whether anything can be quarantined at all."""
        modes = {self.mode, self.after_expiry, *(rule.mode for rule in self.rules)}
        return CleaningMode.QUARANTINE in modes
