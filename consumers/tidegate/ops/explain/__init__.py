"""Explain a table or an event: its history in order, and the next steps."""

from __future__ import annotations

from tidegate.ops.explain.reading import explain
from tidegate.ops.explain.story import Story

__all__ = ["Story", "explain"]
