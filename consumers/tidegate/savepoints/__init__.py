"""Savepoints: when to request one (policy), what it keeps (plan), and writing it (executor)."""

from __future__ import annotations

from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.policy import (
    PolicyRule,
    SavepointMode,
    SavepointPolicy,
    SavepointPolicyService,
)

__all__ = [
    "PolicyRule",
    "SavepointMode",
    "SavepointPolicy",
    "SavepointPolicyService",
    "SavepointWriter",
]
