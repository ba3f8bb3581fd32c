"""Reading tables, on any file system that fsspec knows. Nothing here can change one."""

from __future__ import annotations

from tidegate.storage.locations import is_below, join, local_path, normalise
from tidegate.storage.reader import Entry, NotFound, Storage

__all__ = ["Entry", "NotFound", "Storage", "is_below", "join", "local_path", "normalise"]
