"""Savepoints: when to request one (policy), what it keeps (plan), writing and removing it."""

from __future__ import annotations

from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.policy import SavepointPolicyService
from tidegate.savepoints.rules import PolicyRule, SavepointPolicy, Tier, TierRule

__all__ = [
    "PolicyRule",
    "SavepointPolicy",
    "SavepointPolicyService",
    "SavepointWriter",
    "Tier",
    "TierRule",
]
