"""Cleaning of Hive ACID tables after a vacuum.

Hive calls such a vacuum a compaction: it has merged directories of row events into new ones. Delta
Lake's VACUUM deletes files; here, that is the step after the vacuum, the cleaning.

The reader gate releases a vacuum once no reader uses the directories that it replaced. The plan
lists the obsolete directories, or has the reason why none may be removed. The cleaner removes them.
"""

from __future__ import annotations

from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.gate import ReaderGate, command_for
from tidegate.cleaning.gate_state import GateState, WaitingVacuum
from tidegate.cleaning.listing import ListedDirectory, ListedFile
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning

__all__ = [
    "Cleaner",
    "CleaningPlan",
    "GateState",
    "ListedDirectory",
    "ListedFile",
    "ReaderGate",
    "WaitingVacuum",
    "command_for",
    "plan_cleaning",
    "read_acid_directories",
]
