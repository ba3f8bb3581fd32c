"""Restores: what one would do (plan), why not (checks), doing it (act), the answer (executor)."""

from __future__ import annotations

from tidegate.restores.executor import Restorer
from tidegate.restores.liveness import RestoreSettings
from tidegate.restores.permission import PermittedRestorer
from tidegate.restores.plan import PlannedFile, PlannedRestore, Step
from tidegate.restores.preparation import plan_restore
from tidegate.restores.tools import Tools

__all__ = [
    "PermittedRestorer",
    "PlannedFile",
    "PlannedRestore",
    "RestoreSettings",
    "Restorer",
    "Step",
    "Tools",
    "plan_restore",
]
