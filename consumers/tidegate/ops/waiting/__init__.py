"""What waits: vacuums for readers and for people, quarantines for the end of their time."""

from __future__ import annotations

from tidegate.ops.waiting.changelog import gate_stores, waiting_vacuums
from tidegate.ops.waiting.holding import HeldTable, KeptCleaning, held_and_kept
from tidegate.ops.waiting.lack import LackingVacuum, StoredVacuum, stored_vacuums
from tidegate.ops.waiting.oldest import OldestVacuums

__all__ = [
    "HeldTable",
    "KeptCleaning",
    "LackingVacuum",
    "OldestVacuums",
    "StoredVacuum",
    "gate_stores",
    "held_and_kept",
    "stored_vacuums",
    "waiting_vacuums",
]
