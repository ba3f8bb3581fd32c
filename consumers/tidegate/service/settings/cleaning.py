"""Settings of cleaning: whether obsolete directories are deleted at once, or kept for a time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tidegate.service.settings.alarms import Seconds
from tidegate.service.settings.section import Section

Mode = Literal["delete", "quarantine"]


class CleaningRuleSettings(Section, frozen=True):
    """What is done to obsolete directories of the tables whose name matches a shell pattern."""

    tables: str
    """A shell pattern; of several rules the first whose pattern matches a table applies."""
    mode: Mode
    """delete: at once. quarantine: move them into a hidden directory beside the others, and delete
    them when the time is over; until then `tidegate undo` puts them back."""
    keep: Seconds | None = Field(default=None, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `7d`; by default as
    `cleaning.keep` says."""


class CleaningSettings(Section, frozen=True):
    """Whether a cleaning deletes at once. On an object store it has to: nothing can be renamed."""

    mode: Mode = "delete"
    """For tables that no rule matches."""
    after_expiry: Mode = "quarantine"
    """Where a rule would delete, but a lock or transaction that was waited for has expired. Its
    reader may be alive, only stalled: a long pause, or a network that was down for longer than the
    Metastore's time-out. It then goes on reading files that are gone. In quarantine they can be
    brought back, so that it can be run again; a mere grace time would only make the same race
    later. On object stores it has to be `delete`, and is to be said so."""
    keep: Seconds = Field(default=72 * 3600, ge=0)
    """How long a quarantine is kept, in seconds or as text with a unit: `72h`. Three days by
    default: who comes back on Monday can still undo what was cleaned on Friday."""
    confirm_with: Literal["metastore", "quarantine", "nothing"] | None = None
    """What confirms a removal, besides the events, at the moment of acting. metastore: that of
    `bridge.metastore` is asked; where it contradicts, nothing goes. quarantine: nothing is asked,
    and what goes can be put back: it is never deleted at once. nothing: the events are believed.
    By default the Metastore where one is configured, else quarantine; on an object store without a
    Metastore it has to be set."""
    rules: tuple[CleaningRuleSettings, ...] = ()
    """For some tables; the first that matches applies."""
