"""Hive ACID tables on disk: directory names, snapshots of write ids, what is obsolete."""

from __future__ import annotations

from tidegate.hive.bases import FoundDirectory
from tidegate.hive.names import AcidDirectory, Base, Delta, is_acid_name, parse_name
from tidegate.hive.obsolete import (
    AcidState,
    NotEnoughHistory,
    acid_state,
    always_obsolete,
)
from tidegate.hive.vacuum import Vacuum, VacuumMismatch
from tidegate.hive.write_ids import CleanerWriteIds, Share, ValidTxns, ValidWriteIds

__all__ = [
    "AcidDirectory",
    "AcidState",
    "Base",
    "CleanerWriteIds",
    "Delta",
    "FoundDirectory",
    "NotEnoughHistory",
    "Share",
    "Vacuum",
    "VacuumMismatch",
    "ValidTxns",
    "ValidWriteIds",
    "acid_state",
    "always_obsolete",
    "is_acid_name",
    "parse_name",
]
