"""What savepoints and restores share: opening a table, and writing its timeline."""

from __future__ import annotations

from tidegate.hudi_tables.opening import Refusal, Refused, open_table
from tidegate.hudi_tables.timeline_writer import TimelineWriter, with_checksum

__all__ = ["Refusal", "Refused", "TimelineWriter", "open_table", "with_checksum"]
