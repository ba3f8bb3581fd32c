"""Restores: plan (dry run), checks (reasons to refuse), run (the steps), executor (outcomes)."""

from __future__ import annotations

from tidegate.restores.approval import ApprovalRule, ApprovalRules
from tidegate.restores.context import LivenessSettings, RestoreContext
from tidegate.restores.executor import Restorer
from tidegate.restores.hudi_engine import EngineRule, HudiEngine
from tidegate.restores.plan import PlannedFile, PlannedRestore, Step
from tidegate.restores.preparation import plan_restore

__all__ = [
    "ApprovalRule",
    "ApprovalRules",
    "EngineRule",
    "HudiEngine",
    "LivenessSettings",
    "PlannedFile",
    "PlannedRestore",
    "RestoreContext",
    "Restorer",
    "Step",
    "plan_restore",
]
