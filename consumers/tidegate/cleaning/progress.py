"""Reports the progress of a large cleaning: which planned directories are gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.cleaning.plan import Cleaning, CleaningPlan
from tidegate.errors import TidegateError
from tidegate.events import CleaningProgressed
from tidegate.storage import FileInfo

LONG: Final = 100
"""The number of directories above which progress is reported; fewer are removed quickly."""


@dataclass(slots=True)
class CleaningProgress:
    """Counts a plan's remaining directories. A directory is listed until it is empty."""

    command: Cleaning
    plan: CleaningPlan
    list_location: Callable[[], list[FileInfo]]
    reported: int = field(default=0, init=False)
    """The number of removed directories in the last event."""

    def event(self, event_fields: dict[str, Any]) -> CleaningProgressed | None:
        """The progress; None if nothing was removed since the last event, or the listing fails."""
        try:
            left = {entry.name for entry in self.list_location()}
        except (OSError, TidegateError):  # the removal meets and reports the same fault
            return None
        gone = [planned for planned in self.plan.remove if planned.name not in left]
        if not self.reported < len(gone) < len(self.plan.remove):
            return None
        self.reported = len(gone)
        return CleaningProgressed.about(
            self.command,
            **event_fields,
            directories_done=len(gone),
            directories_total=len(self.plan.remove),
            files_done=sum(len(directory.files) for directory in gone),
            files_total=self.plan.files,
        )
