"""Restores: plan (what one would do), checks (why not), run (doing it), executor (outcomes)."""

from __future__ import annotations

from tidegate.restores.context import RestoreContext
from tidegate.restores.executor import Restorer
from tidegate.restores.liveness import LivenessSettings
from tidegate.restores.plan import PlannedFile, PlannedRestore, Step
from tidegate.restores.preparation import plan_restore

__all__ = [
    "LivenessSettings",
    "PlannedFile",
    "PlannedRestore",
    "RestoreContext",
    "Restorer",
    "Step",
    "plan_restore",
]
