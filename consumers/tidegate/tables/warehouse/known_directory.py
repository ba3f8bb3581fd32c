"""A local directory that is looked at over and over, and listed again only when it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from tidegate.storage import FileInfo
from tidegate.storage.local import LocalPath

_SETTLED_NS: Final = 1_000_000_000
"""What changed less than a second ago may change again without a new time: a file system's clock
moves on every few milliseconds only. (Git keeps its index in the same way.)"""
_CHANGED, _MODIFIED, _SIZE = 4, 3, 2
_NANOSECONDS_PER_MS: Final = 1_000_000
_Identity = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class KnownDirectory:
    """The files that were listed in a directory, and how to know that they still are those.

    The times of a directory change with the names in it, those of a file with its content, and
    what is put in the place of either has another inode.
    """

    files: Sequence[FileInfo]
    names: tuple[str, ...]
    """The directory and its files, relative to its parent."""
    identities: tuple[_Identity, ...]

    @classmethod
    def of(
        cls, parent: int, path: LocalPath, before: _Identity, files: Sequence[FileInfo]
    ) -> Self | None:
        """Know a directory whose parent is open.

        Args:
            parent: The parent's descriptor.
            path: The directory.
            before: Its identity before it was listed, so that a name which came or went during the
                listing is seen as a change.
            files: What was listed.

        Returns:
            None if it must be listed again: it has directories, or was changed during the listing
            or just before.
        """
        if any(file.path != f"{path}/{file.name}" for file in files):
            return None
        names = (path.name, *(f"{path.name}/{file.name}" for file in files))
        found = [identity_of(parent, name) for name in names[1:]]
        identities = (before, *(each for each in found if each is not None))
        latest = time.time_ns() - _SETTLED_NS
        if len(identities) < len(names) or any(each[_CHANGED] > latest for each in identities):
            return None
        if any(_differs(file, found) for file, found in zip(files, identities[1:], strict=True)):
            return None
        return cls(files, names, identities)

    def is_unchanged(self, parent: int) -> bool:
        """Whether a listing would find the same files."""
        return all(
            identity_of(parent, name) == identity
            for name, identity in zip(self.names, self.identities, strict=True)
        )


def identity_of(parent: int, name: str) -> _Identity | None:
    """Device, inode, size and the times of change of a path below an open directory.

    None if it does not exist. A link counts as itself.
    """
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _differs(file: FileInfo, found: _Identity) -> bool:
    modified_ms = found[_MODIFIED] // _NANOSECONDS_PER_MS
    return (file.size, file.modified_ms) != (found[_SIZE], modified_ms)
