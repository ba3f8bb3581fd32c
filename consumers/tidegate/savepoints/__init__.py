"""Savepoints: when to ask for one (policy), what it holds (plan), and writing it (executor)."""

from __future__ import annotations

from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.policy import (
    SavepointMode,
    SavepointPolicy,
    SavepointPolicyService,
    SavepointRule,
)

__all__ = [
    "SavepointMode",
    "SavepointPolicy",
    "SavepointPolicyService",
    "SavepointRule",
    "SavepointWriter",
]
