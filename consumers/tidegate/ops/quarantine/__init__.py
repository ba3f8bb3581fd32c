"""Which cleanings have something in quarantine, as the outcomes say."""

from __future__ import annotations

from tidegate.ops.quarantine.finding import QuarantinedCleaning, find_cleaning

__all__ = ["QuarantinedCleaning", "find_cleaning"]
