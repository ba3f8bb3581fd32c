"""What savepoints and restores share: opening a table, its timeline, the answers it keeps."""

from __future__ import annotations

from tidegate.hudi_tables.answers import Answers, forget_before
from tidegate.hudi_tables.opening import open_table
from tidegate.hudi_tables.timeline_writer import TimelineWriter, with_checksum

__all__ = [
    "Answers",
    "TimelineWriter",
    "forget_before",
    "open_table",
    "with_checksum",
]
