"""Move a stopped deployment to more partitions without losing state or events; planned first."""

from __future__ import annotations

from tidegate.ops.growth.cluster import Growth
from tidegate.ops.growth.moves import GrowthPlan

__all__ = ["Growth", "GrowthPlan"]
