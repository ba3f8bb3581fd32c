"""Find cleanings with directories in quarantine, from the outcomes."""

from __future__ import annotations

from tidegate.ops.quarantine.finding import QuarantinedCleaning, find_cleaning

__all__ = ["QuarantinedCleaning", "find_cleaning"]
