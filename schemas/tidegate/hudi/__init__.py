"""File names and contents of a Hudi table's timeline, as values. Pure: nothing reads a disk."""

from __future__ import annotations

from tidegate.hudi.commit import CommitMetadata, WriteStat
from tidegate.hudi.file_slice import (
    BaseFile,
    FileSlice,
    LogFile,
    SliceRules,
    compactions_to_read,
    instant_of_data_file,
    latest_slices,
    parse_data_file,
    repeated_writes,
    replaced_groups,
)
from tidegate.hudi.instant import (
    COMPLETED_AS,
    WRITES,
    Action,
    Instant,
    InstantState,
    Layout,
    instant_of,
    instant_of_ms,
    is_instant,
    moment_of,
    next_instant,
)
from tidegate.hudi.properties import TableProperties
from tidegate.hudi.rollback import (
    InstantInfo,
    RestoreMetadata,
    RestorePlanFile,
    RollbackMetadata,
    rollback_target,
)
from tidegate.hudi.rollback_block import RollbackBlock
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.hudi.table_services import compacted_groups, merged_files
from tidegate.hudi.timeline import Timeline

__all__ = [
    "COMPLETED_AS",
    "WRITES",
    "Action",
    "BaseFile",
    "CommitMetadata",
    "FileSlice",
    "Instant",
    "InstantInfo",
    "InstantState",
    "Layout",
    "LogFile",
    "RestoreMetadata",
    "RestorePlanFile",
    "RollbackBlock",
    "RollbackMetadata",
    "SavepointMetadata",
    "SliceRules",
    "TableProperties",
    "Timeline",
    "WriteStat",
    "compacted_groups",
    "compactions_to_read",
    "instant_of",
    "instant_of_data_file",
    "instant_of_ms",
    "is_instant",
    "latest_slices",
    "merged_files",
    "moment_of",
    "next_instant",
    "parse_data_file",
    "repeated_writes",
    "replaced_groups",
    "rollback_target",
]
