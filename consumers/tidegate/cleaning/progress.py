"""How far a large cleaning is: which of the planned directories are gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.cleaning.plan import Cleaning, CleaningPlan
from tidegate.errors import TidegateError
from tidegate.events import CleaningProgressed
from tidegate.storage import FileInfo

LONG: Final = 100
"""Directories above which a cleaning may take long: fewer are gone before anybody asks."""


@dataclass(slots=True)
class CleaningProgress:
    """Looks which directories of a plan are left. A directory keeps its name until it is empty."""

    command: Cleaning
    plan: CleaningPlan
    list_location: Callable[[], list[FileInfo]]
    said: int = field(default=0, init=False)
    """Directories that were gone when it was last said."""

    def look(self, envelope: dict[str, Any]) -> CleaningProgressed | None:
        """How far it is; None where nothing is gone since the last time, or can't be seen."""
        try:
            left = {entry.name for entry in self.list_location()}
        except (OSError, TidegateError):  # the removal meets the same fault, and says so itself
            return None
        gone = [each for each in self.plan.remove if each.name not in left]
        if not self.said < len(gone) < len(self.plan.remove):
            return None
        self.said = len(gone)
        return CleaningProgressed.about(
            self.command,
            **envelope,
            directories_done=len(gone),
            directories_total=len(self.plan.remove),
            files_done=sum(len(each.files) for each in gone),
            files_total=self.plan.files,
        )
