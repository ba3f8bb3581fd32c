"""The entries of a listing."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

MARKER_SUFFIX: Final = "_$folder$"
"""Hadoop's file systems for object stores mark a directory with an empty file of this suffix."""
Version = str | int | None
"""Distinguishes a file from another one that took its name: inode and change time of a local file,
ETag of an object. None: the store has none."""


class FileInfo(NamedTuple):
    """A file or directory: its name, normalised path and size in bytes.

    `modified_ms` is the modification time in milliseconds since the epoch; 0 if the store records
    none (directories of object stores). A symbolic link is neither file nor directory: its size and
    time are the link's own, and `is_dir` is False. A tuple, because listings create millions.
    """

    name: str
    path: str
    is_dir: bool
    size: int
    modified_ms: int
    is_link: bool = False
    version: Version = None

    @property
    def marks_directory(self) -> bool:
        """Whether it is a file by which Hadoop marks a directory of an object store."""
        return self.name.endswith(MARKER_SUFFIX) and not self.is_dir and not self.is_link


class ListedFile(NamedTuple):
    """A file somewhere below a directory, without its path. A symbolic link counts as a file.

    `size` is in bytes; `modified_ms` is in milliseconds since the epoch, 0 if the store has none.
    """

    name: str
    size: int
    is_link: bool = False
    modified_ms: int = 0

    @classmethod
    def of(cls, entry: FileInfo) -> Self:
        """A file as a listing shows it."""
        return cls(entry.name, entry.size, entry.is_link, entry.modified_ms)
