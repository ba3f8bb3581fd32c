"""Shared by savepoints and restores: opening a table and writing its timeline."""

from __future__ import annotations

from tidegate.tables.hudi.opening import claim_table, open_table, refusing_unreadable
from tidegate.tables.hudi.timeline_writer import TimelineWriter

__all__ = [
    "TimelineWriter",
    "claim_table",
    "open_table",
    "refusing_unreadable",
]
