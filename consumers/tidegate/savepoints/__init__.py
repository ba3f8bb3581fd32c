"""Savepoints: when one is due or may go (retention), its files (plan), writing and removing."""

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
