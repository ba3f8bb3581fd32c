"""List and remove local directories of one parent, if their files are as expected.

The parent is opened once. If it is moved or replaced meanwhile, the names still refer to the
directory that was opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidegate.storage import FileInfo
from tidegate.storage.local import LocalPath, naming, open_below, walk_open
from tidegate.tables.warehouse.changes import MayGo
from tidegate.tables.warehouse.local_files import empty_directory

_ATTEMPTS: Final = 10
_LAST: Final = _ATTEMPTS - 1


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """An open local directory. Checks and removals use the same descriptor."""

    descriptor: int
    path: LocalPath
    device: int

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        """See `OpenFolder`."""
        path = self.path.child(name)
        try:
            directory = open_below(self.descriptor, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise naming(error, path) from error
        try:
            return walk_open(directory, path)
        finally:
            os.close(directory)

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        """See `OpenFolder`. If files appear after the listing, lists and checks again."""
        path = self.path.child(name)
        for attempt in range(_ATTEMPTS):
            try:
                directory = open_below(self.descriptor, name, path)
            except (FileNotFoundError, NotADirectoryError):
                return True
            # closed after its removal: the file system frees a directory with its last descriptor,
            # and then without the parent's lock, which rmdir holds
            try:
                if not self._empty_if(directory, path, may_go, is_repeat=attempt > 0):
                    return False
                if self._is_removed(path, is_last=attempt == _LAST):
                    return True
            finally:
                os.close(directory)
        return False

    def _is_removed(self, path: LocalPath, *, is_last: bool) -> bool:
        """Remove an empty directory; return whether it is gone or needs another attempt."""
        try:
            os.rmdir(path.name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return True
        except OSError as error:
            # not empty: it has directories, or another process writes; or replaced by a link
            if error.errno not in {errno.ENOTEMPTY, errno.ENOTDIR} or is_last:
                raise naming(error, path) from error
            return False
        return True

    def _empty_if(self, directory: int, path: LocalPath, may_go: MayGo, *, is_repeat: bool) -> bool:
        if os.fstat(directory).st_dev != self.device:
            raise OSError(errno.EXDEV, "another file system is mounted here", str(path))
        found = walk_open(directory, path)
        if not may_go(found):
            return False
        try:
            if is_repeat:
                empty_directory(directory, path, self.device, {file.path for file in found})
            else:
                _unlink(directory, found, len(str(path)) + 1)
        except OSError as error:
            raise naming(error, path) from error
        return True


def _unlink(directory: int, found: Sequence[FileInfo], above: int) -> None:
    """Remove the direct files of a directory; `above` is the length of its path with a slash."""
    for file in found:
        if len(file.path) == above + len(file.name):
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=directory)
