"""Cleaning of Hive ACID tables after a vacuum.

Hive calls such a vacuum a compaction: it has merged directories of row events into new ones. Delta
Lake's VACUUM deletes files; here, that is the step after the vacuum, the cleaning.

The coordinator releases a vacuum once no reader is left of what it replaced. The plan says which
directories are obsolete, or why none may be removed. The cleaner removes them.
"""

from __future__ import annotations

from tidegate.cleaning.directory_reader import read_acid_directories
from tidegate.cleaning.executor import Cleaner
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.storage import ListedFile

__all__ = [
    "Cleaner",
    "CleaningPlan",
    "ListedDirectory",
    "ListedFile",
    "plan_cleaning",
    "read_acid_directories",
]
