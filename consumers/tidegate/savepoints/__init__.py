"""Savepoints: when to request one (policy), what it keeps (plan), writing and removing it."""

from __future__ import annotations

from tidegate.savepoints.condemned import CondemnedAction, CondemnedRule, CondemnedRules
from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.policy import SavepointPolicyService
from tidegate.savepoints.rules import PolicyRule, SavepointPolicy, Tier, TierRule

__all__ = [
    "CondemnedAction",
    "CondemnedRule",
    "CondemnedRules",
    "PolicyRule",
    "SavepointPolicy",
    "SavepointPolicyService",
    "SavepointWriter",
    "Tier",
    "TierRule",
]
