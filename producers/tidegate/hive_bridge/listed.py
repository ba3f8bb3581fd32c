"""Which entries of a table's directory are named as ACID directories. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.hive import MARKER_SUFFIX, is_acid_name
from tidegate.storage import FileInfo


def acid_names(entries: Iterable[FileInfo]) -> list[str]:
    """The names that begin as those of ACID directories do, links too.

    An object store's markers are left out: they are files beside the directories, say nothing that
    those do not, and may be left where a directory is gone.
    """
    return [entry.name for entry in entries if is_acid_name(entry.name) and not _is_marker(entry)]


def _is_marker(entry: FileInfo) -> bool:
    return entry.name.endswith(MARKER_SUFFIX) and not entry.is_dir and not entry.is_link
