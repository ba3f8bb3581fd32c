"""Read tables, wherever they lie. Nothing in this package can change a table."""

from __future__ import annotations

from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.locations import is_below, join, local_path, normalise
from tidegate.storage.parallel import ParallelMap
from tidegate.storage.reader import NotFound, Storage

__all__ = [
    "FileInfo",
    "ListedFile",
    "NotFound",
    "ParallelMap",
    "Storage",
    "is_below",
    "join",
    "local_path",
    "normalise",
]
