"""How far a restore is, said now and then. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.restores.plan import PlannedRestore, Step
from tidegate.tables.progress import PAUSE


@dataclass(slots=True)
class Progress:
    """Call `rolled_back` after each pass; it says whether that should be published."""

    plan: PlannedRestore
    said_at: datetime
    instants: int = 0
    files: int = 0
    total_files: int = field(init=False)

    def __post_init__(self) -> None:
        """Count what is to be done; of a resumed restore, the files that are left."""
        self.total_files = sum(len(step.files) for step in self.plan.steps)

    @property
    def total_instants(self) -> int:
        """How many instants are rolled back in all."""
        return len(self.plan.steps)

    def rolled_back(self, steps: Sequence[Step], now: datetime) -> bool:
        """Count a pass; True if people were told nothing for a while, and the end is not reached.

        The last pass is never said: the restore's completion says more.
        """
        self.instants += len(steps)
        self.files += sum(len(step.files) for step in steps)
        if self.instants == self.total_instants or now - self.said_at < PAUSE:
            return False
        self.said_at = now
        return True
