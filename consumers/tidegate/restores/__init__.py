"""Restores: plan (dry run), checks (reasons to refuse), run (the steps), executor (outcomes)."""

from __future__ import annotations

from tidegate.restores.approval import ApprovalRule, ApprovalRules
from tidegate.restores.context import LivenessSettings
from tidegate.restores.executor import Restorer
from tidegate.restores.hudi_engine import EngineRule, HudiEngine
from tidegate.restores.plan import PlannedRestore
from tidegate.restores.preparation import plan_restore

__all__ = [
    "ApprovalRule",
    "ApprovalRules",
    "EngineRule",
    "HudiEngine",
    "LivenessSettings",
    "PlannedRestore",
    "Restorer",
    "plan_restore",
]
