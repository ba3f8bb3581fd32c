"""Settings of cleaning: whether obsolete directories are deleted at once or quarantined."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tidegate.events.fields import Name
from tidegate.service.settings.section import Seconds, Section

Mode = Literal["delete", "quarantine"]


class _CleaningRuleSettings(Section, frozen=True):
    """How to clean obsolete directories of the tables whose name matches a shell pattern."""

    tables: Name
    """A shell pattern; of several rules the first whose pattern matches a table applies."""
    mode: Mode
    """delete: at once. quarantine: move them into a hidden directory next to the others, and delete
    them after `keep`; until then `tidegate undo` puts them back."""
    keep: Seconds | None = Field(default=None, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `7d`; by default
    `cleaning.keep`."""


class CleaningSettings(Section, frozen=True):
    """Whether a cleaning deletes at once. On an object store it must: it can't rename there."""

    mode: Mode = "delete"
    """For tables that no rule matches."""
    after_expiry: Mode = "quarantine"
    """The mode if a rule would delete but a lock or transaction of a reader has expired. The reader
    may be alive but stalled, by a long pause or by a network outage longer than the Metastore's
    time-out. It would then read files that are gone. From quarantine they can be put back, so that
    the reader can run again; a grace time would only delay the same race. On object stores set it
    to `delete`."""
    keep: Seconds = Field(default=72 * 3600, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `72h`. The default
    of three days covers a weekend: a cleaning of Friday can still be undone on Monday."""
    confirm_with: Literal["metastore", "quarantine", "nothing"] | None = None
    """What confirms a removal, in addition to the events, right before it. metastore: the Metastore
    of `bridge.metastore` is asked; if it contradicts, nothing is removed. quarantine: nothing is
    asked, and directories are never deleted at once. nothing: the events are believed. The default
    is the configured Metastore, else quarantine; an object store without a Metastore needs an
    explicit setting."""
    rules: tuple[_CleaningRuleSettings, ...] = ()
    """For some tables; the first that matches applies."""
