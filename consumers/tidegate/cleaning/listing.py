"""The content of a table's or partition's directory, as values. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.hive import MARKER_SUFFIX
from tidegate.storage import ListedFile

__all__ = ["ListedDirectory", "ListedFile"]


class ListedDirectory(NamedTuple):
    """An entry named as an ACID directory, with all files below it.

    `is_plain` is false for a file or a symbolic link of such a name. `has_marker` is true if an
    object store keeps an empty file `NAME_$folder$` beside the directory.
    """

    name: str
    path: str
    files: tuple[ListedFile, ...] = ()
    is_plain: bool = True
    has_marker: bool = False

    @property
    def marker_path(self) -> str:
        """Where an object store keeps its marker of this directory."""
        return f"{self.path}{MARKER_SUFFIX}"

    @property
    def size(self) -> int:
        """Total bytes of its files; the targets of links are not counted."""
        return sum(file.size for file in self.files if not file.is_link)
