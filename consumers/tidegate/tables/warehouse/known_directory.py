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
    identity: _Identity
    """The directory's own."""
    identities: tuple[_Identity, ...]
    """Those of the files."""

    @classmethod
    def of(
        cls, directory: int, path: LocalPath, before: _Identity, files: Sequence[FileInfo]
    ) -> Self | None:
        """Know an open directory.

        Args:
            directory: Its descriptor.
            path: Where it is.
            before: Its identity before it was listed, so that a name which came or went during the
                listing is seen as a change.
            files: What was listed.

        Returns:
            None if it must be listed again: it has directories, or was changed during the listing
            or just before.
        """
        if any(file.path != f"{path}/{file.name}" for file in files):
            return None
        found = [_identity_below(directory, file.name) for file in files]
        identities = tuple(each for each in found if each is not None)
        latest = time.time_ns() - _SETTLED_NS
        if len(identities) < len(files) or any(
            identity[_CHANGED] > latest for identity in (before, *identities)
        ):
            return None
        if any(_differs(file, found) for file, found in zip(files, identities, strict=True)):
            return None
        return cls(files, before, identities)

    def is_unchanged(self, directory: int) -> bool:
        """Whether a listing of the directory of that name, opened just now, would be the same.

        Opened, because a network file system asks its server then, and not at every stat.
        """
        return identity_of(directory) == self.identity and all(
            _identity_below(directory, file.name) == identity
            for file, identity in zip(self.files, self.identities, strict=True)
        )


def identity_of(directory: int) -> _Identity:
    """Device, inode, size and the times of change of an open directory."""
    return _identity(os.fstat(directory))


def _identity_below(directory: int, name: str) -> _Identity | None:
    """The same of a file in it, None if it is gone. A link counts as itself."""
    try:
        return _identity(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _differs(file: FileInfo, found: _Identity) -> bool:
    modified_ms = found[_MODIFIED] // _NANOSECONDS_PER_MS
    return (file.size, file.modified_ms) != (found[_SIZE], modified_ms)
