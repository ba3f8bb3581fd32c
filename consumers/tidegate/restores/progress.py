"""The progress of a restore, reported from time to time. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.restores.plan import PlannedRestore, Step
from tidegate.tables.progress import PAUSE


@dataclass(slots=True)
class Progress:
    """Call `rolled_back` after each pass; it returns whether to publish the progress."""

    plan: PlannedRestore
    reported_at: datetime
    instants: int = 0
    files: int = 0
    total_files: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the files to remove; for a resumed restore, the remaining ones."""
        self.total_files = sum(len(step.files) for step in self.plan.steps)

    @property
    def total_instants(self) -> int:
        """The total number of instants to roll back."""
        return len(self.plan.steps)

    def rolled_back(self, steps: Sequence[Step], now: datetime) -> bool:
        """Count a pass; return True if the last report was a while ago and passes remain.

        The last pass is never reported, because the restore's outcome follows.
        """
        self.instants += len(steps)
        self.files += sum(len(step.files) for step in steps)
        if self.instants == self.total_instants or now - self.reported_at < PAUSE:
            return False
        self.reported_at = now
        return True
