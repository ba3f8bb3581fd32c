"""A local directory that is polled repeatedly, and listed again only if it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from tidegate.storage import FileInfo
from tidegate.storage.local import LocalPath

_SETTLED_NS: Final = 1_000_000_000
"""A file that changed less than a second ago may change again without a new time, because a file
system's clock advances only every few milliseconds. (Git's index has the same rule.)"""
_CHANGED, _MODIFIED, _SIZE = 4, 3, 2
_NANOSECONDS_PER_MS: Final = 1_000_000
_Identity = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class KnownDirectory:
    """The listed files of a directory, and identities that show whether they are unchanged.

    The times of a directory change with the names in it, and those of a file with its content. A
    replacement of either has another inode.
    """

    files: Sequence[FileInfo]
    identity: _Identity
    """The directory's identity."""
    identities: tuple[_Identity, ...]
    """The files' identities."""

    @classmethod
    def of(
        cls, directory: int, path: LocalPath, before: _Identity, files: Sequence[FileInfo]
    ) -> Self | None:
        """Record the listing of an open directory.

        Args:
            directory: The directory's descriptor.
            path: The directory's path.
            before: The directory's identity before the listing, so that a name which was added or
                removed during the listing counts as a change.
            files: The listed files.

        Returns:
            None if the directory has to be listed again next time: it has subdirectories, or has
            changed during the listing or just before.
        """
        if any(file.path != f"{path}/{file.name}" for file in files):
            return None
        found = [_identity_below(directory, file.name) for file in files]
        identities = tuple(identity for identity in found if identity is not None)
        latest = time.time_ns() - _SETTLED_NS
        if len(identities) < len(files) or any(
            identity[_CHANGED] > latest for identity in (before, *identities)
        ):
            return None
        if any(_differs(file, found) for file, found in zip(files, identities, strict=True)):
            return None
        return cls(files, before, identities)

    def is_unchanged(self, directory: int) -> bool:
        """Whether a listing of the directory, opened just now, would return the same.

        A network file system asks its server at every open, but not at every stat.
        """
        return identity_of(directory) == self.identity and all(
            _identity_below(directory, file.name) == identity
            for file, identity in zip(self.files, self.identities, strict=True)
        )


def identity_of(directory: int) -> _Identity:
    """Device, inode, size and the times of change of an open directory."""
    return _identity(os.fstat(directory))


def _identity_below(directory: int, name: str) -> _Identity | None:
    """The identity of a file in an open directory; None if it is gone. Links are not followed."""
    try:
        return _identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _differs(file: FileInfo, found: _Identity) -> bool:
    modified_ms = found[_MODIFIED] // _NANOSECONDS_PER_MS
    return (file.size, file.modified_ms) != (found[_SIZE], modified_ms)
