"""Quarantine of cleaned directories: putting them back, and removing them once their time is over.

Where a table's cleaning quarantines, obsolete directories are moved into a hidden directory beside
them. They can be put back until they are removed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from tidegate.events.base import Caused, Command, ReasonedRequest
from tidegate.events.limits import Count, Message, Text
from tidegate.events.outcomes import Answer, DirectoriesOutcome
from tidegate.events.verdict import Verdict


class CleaningMode(StrEnum):
    """What a cleaning does with obsolete directories."""

    DELETE = "delete"
    QUARANTINE = "quarantine"


class CleaningUndoRequested(ReasonedRequest, frozen=True):
    """Put back what a cleaning moved into quarantine.

    `cleaning` is the id of the CleaningReleased that caused it. With `plan_only` the plan is
    published and nothing is changed.
    """

    identified_by: ClassVar[tuple[str, ...]] = (
        "table",
        "partition",
        "cleaning",
        "plan_only",
        "caused_by",
        "source",
    )

    cleaning: Text
    partition: Text | None = None
    plan_only: bool = False

    @property
    def asked_why(self) -> str | None:
        """The reason in the request."""
        return self.reason


class QuarantineRemovalRequested(Caused, Command, frozen=True):
    """The time is over for which a cleaning's directories were kept: remove them for good."""

    cleaning: Text
    partition: Text | None = None


class CleaningUndoPlanned(DirectoriesOutcome, frozen=True):
    """What an undo would put back; nothing was changed."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text


class CleaningUndone(DirectoriesOutcome, frozen=True):
    """Every directory that the cleaning moved into quarantine is back in its place."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text
    duration_ms: Count


class CleaningUndoRefused(Answer, frozen=True):
    """The undo was refused; this attempt put nothing back. `reason` is a code of `Reason`."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    cleaning: Text
    partition: Text | None = None
    reason: Text
    message: Message


class QuarantineRemoved(DirectoriesOutcome, frozen=True):
    """Nothing of the cleaning is in quarantine any more. This run removed `directories`."""

    means: ClassVar[Verdict] = Verdict.DONE

    cleaning: Text
    duration_ms: Count
