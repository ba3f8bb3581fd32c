"""What waits for readers: the vacuums that the gate holds back, and which holds they lack."""

from __future__ import annotations

from tidegate.ops.waiting.changelog import waiting_vacuums
from tidegate.ops.waiting.lack import LackingVacuum

__all__ = ["LackingVacuum", "waiting_vacuums"]
