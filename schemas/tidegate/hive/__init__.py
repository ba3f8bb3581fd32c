"""Hive ACID tables on disk: directory names, snapshots of write ids, obsolete directories.

Mirrors Hive's `AcidUtils` (4.0 and 4.1). As in Hive, a vacuum of Tidegate's events is called a
compaction here.
"""

from __future__ import annotations

from tidegate.hive.compaction import Compaction, InconsistentCompaction, covers
from tidegate.hive.content import content_hash
from tidegate.hive.names import MARKER_SUFFIX, AcidDirectory, Base, Delta, is_acid_name, parse_name
from tidegate.hive.obsolete import (
    DATA_FORMAT_FILE,
    DATA_FORMAT_LIMIT,
    AcidState,
    FoundDirectory,
    NotEnoughHistory,
    aborted_rows,
    acid_state,
    hides,
    is_of_compaction,
    settled_state,
)
from tidegate.hive.write_ids import (
    NOTHING_OPEN,
    CleanerWriteIds,
    IdRanges,
    RangeResponse,
    ValidTxns,
    ValidWriteIds,
    shortened,
)

__all__ = [
    "DATA_FORMAT_FILE",
    "DATA_FORMAT_LIMIT",
    "MARKER_SUFFIX",
    "NOTHING_OPEN",
    "AcidDirectory",
    "AcidState",
    "Base",
    "CleanerWriteIds",
    "Compaction",
    "Delta",
    "FoundDirectory",
    "IdRanges",
    "InconsistentCompaction",
    "NotEnoughHistory",
    "RangeResponse",
    "ValidTxns",
    "ValidWriteIds",
    "aborted_rows",
    "acid_state",
    "content_hash",
    "covers",
    "hides",
    "is_acid_name",
    "is_of_compaction",
    "parse_name",
    "settled_state",
    "shortened",
]
