"""Shared by savepoints and restores: opening a table, writing its timeline, stored outcomes."""

from __future__ import annotations

from tidegate.tables.hudi.opening import claim_table, open_table
from tidegate.tables.hudi.outcome_store import OutcomeStore, remove_before
from tidegate.tables.hudi.timeline_writer import TimelineWriter, with_checksum

__all__ = [
    "OutcomeStore",
    "TimelineWriter",
    "claim_table",
    "open_table",
    "remove_before",
    "with_checksum",
]
