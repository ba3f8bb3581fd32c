"""Everything that is known of a table or of an event, in order, and what happens next."""

from __future__ import annotations

from tidegate.ops.explain.reading import explain
from tidegate.ops.explain.story import Story

__all__ = ["Story", "explain"]
