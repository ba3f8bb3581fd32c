"""Savepoints: when one is due or may go (retention), what it keeps (plan), writing and removing."""

from __future__ import annotations

from tidegate.savepoints.executor import SavepointWriter
from tidegate.savepoints.rules import (
    CondemnedAction,
    CondemnedRule,
    CondemnedRules,
    PolicyRule,
    SavepointPolicy,
    Tier,
    TierRule,
)

__all__ = [
    "CondemnedAction",
    "CondemnedRule",
    "CondemnedRules",
    "PolicyRule",
    "SavepointPolicy",
    "SavepointWriter",
    "Tier",
    "TierRule",
]
