"""Hive ACID tables on disk: directory names, snapshots of write ids, obsolete directories.

Mirrors Hive's `AcidUtils` (4.0 and 4.1). As in Hive, a vacuum of Tidegate's events is called a
compaction here.
"""

from __future__ import annotations

from tidegate.hive.bases import (
    DATA_FORMAT_FILE,
    DATA_FORMAT_LIMIT,
    FoundDirectory,
    is_of_compaction,
)
from tidegate.hive.compaction import Compaction, InconsistentCompaction, covers
from tidegate.hive.content import content_hash
from tidegate.hive.hiding import hides
from tidegate.hive.id_lists import NOTHING_OPEN, IdRanges, shortened
from tidegate.hive.names import MARKER_SUFFIX, AcidDirectory, Base, Delta, is_acid_name, parse_name
from tidegate.hive.obsolete import (
    AcidState,
    NotEnoughHistory,
    acid_state,
    always_obsolete,
    settled_state,
)
from tidegate.hive.write_ids import CleanerWriteIds, RangeResponse, ValidTxns, ValidWriteIds

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
    "acid_state",
    "always_obsolete",
    "content_hash",
    "covers",
    "hides",
    "is_acid_name",
    "is_of_compaction",
    "parse_name",
    "settled_state",
    "shortened",
]
