"""The content of a table's or partition's directory, as values. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.storage.file_info import MARKER_SUFFIX, ListedFile


class ListedDirectory(NamedTuple):
    """An entry named as an ACID directory, with all files below it.

    `is_plain` is false for a file or a symbolic link of such a name. `has_marker` is true if an
    object store has an empty file `NAME_$folder$` next to the directory. `data_format` is the
    content of the file that names the writer of a base; None: there is no such file.
    """

    name: str
    parent: str
    """The parent's location without a slash at the end: one string for a complete listing."""
    files: tuple[ListedFile, ...] = ()
    is_plain: bool = True
    has_marker: bool = False
    data_format: bytes | None = None

    @property
    def path(self) -> str:
        """The directory's location."""
        return f"{self.parent}/{self.name}"

    @property
    def marker_path(self) -> str:
        """The location of an object store's marker of this directory."""
        return f"{self.path}{MARKER_SUFFIX}"

    @property
    def size(self) -> int:
        """Total bytes of its files; the targets of links are not counted."""
        return sum(file.size for file in self.files if not file.is_link)
