"""Waiting vacuums, holds of tables and quarantines, from the coordinator's changelog."""

from __future__ import annotations

from tidegate.ops.waiting.changelog import gate_stores, waiting_vacuums
from tidegate.ops.waiting.holding import HeldTable, QuarantinedDirectories, holds_and_quarantines
from tidegate.ops.waiting.oldest import OldestVacuums
from tidegate.ops.waiting.outstanding import PendingVacuum, StoredVacuum, stored_vacuums

__all__ = [
    "HeldTable",
    "OldestVacuums",
    "PendingVacuum",
    "QuarantinedDirectories",
    "StoredVacuum",
    "gate_stores",
    "holds_and_quarantines",
    "stored_vacuums",
    "waiting_vacuums",
]
