"""Shared by savepoints and restores: opening a table, writing its timeline, stored outcomes."""

from __future__ import annotations

from tidegate.tables.hudi.opening import claim_table, open_table, refusing_unreadable
from tidegate.tables.hudi.outcome_store import OutcomeStore, remove_before
from tidegate.tables.hudi.timeline_writer import TimelineWriter

__all__ = [
    "OutcomeStore",
    "TimelineWriter",
    "claim_table",
    "open_table",
    "refusing_unreadable",
    "remove_before",
]
