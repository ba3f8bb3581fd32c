"""Remove and move local directories by descriptors, if their files are as expected.

Directories on the way are opened once, without following links. If one of them is moved or replaced
meanwhile, the names still refer to the directory that was opened. Renames are atomic and replace
nothing; the directory that was checked is the one that is moved: if another one took its name in
between, the move is undone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidegate.errors import TransientError
from tidegate.storage import FileInfo, TooDeep
from tidegate.storage.local import LocalPath, naming, open_below, walk_open
from tidegate.storage.store import MAX_DEPTH
from tidegate.tables.warehouse.changes import MayGo

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
                _empty(directory, path, self.device, {file.path for file in found})
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


@dataclass(frozen=True, slots=True)
class LocalMoves:
    """See `Moves`. Both directories are open."""

    source: int
    source_path: LocalPath
    target: int
    target_path: LocalPath

    def move_if(self, name: str, may_go: MayGo, as_name: str | None = None) -> bool | None:
        """See `Moves`."""
        path = self.source_path.child(name)
        try:
            directory = open_below(self.source, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            if not may_go(walk_open(directory, path)):
                return False
            return self._rename(directory, name, as_name or name)
        finally:
            os.close(directory)

    def _rename(self, directory: int, name: str, as_name: str) -> bool | None:
        path = self.target_path.child(as_name)
        if self._is_there(as_name):  # rename() would replace an empty directory
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        try:
            os.rename(name, as_name, src_dir_fd=self.source, dst_dir_fd=self.target)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise naming(error, path) from error
        moved = os.stat(as_name, dir_fd=self.target, follow_symlinks=False)
        if not os.path.samestat(moved, os.fstat(directory)):
            os.rename(as_name, name, src_dir_fd=self.target, dst_dir_fd=self.source)
            raise TransientError(f"{self.source_path.child(name)} was exchanged during its move")
        return True

    def _is_there(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.target, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True


def remove_entry(
    parent: int, path: LocalPath, device: int, only: AbstractSet[str] | None = None
) -> None:
    """Remove the last name of `path` (file, link or directory) from the open directory `parent`."""
    for attempt in range(_ATTEMPTS):
        try:
            directory = os.open(
                path.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent
            )
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
            with suppress(FileNotFoundError):  # a file or a link
                os.unlink(path.name, dir_fd=parent)
            return
        try:
            if os.fstat(directory).st_dev != device:
                raise OSError(errno.EXDEV, "another file system is mounted here", str(path))
            _empty(directory, path, device, only)
        finally:
            os.close(directory)
        try:
            os.rmdir(path.name, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            if only is not None and error.errno == errno.ENOTEMPTY:
                return
            # not empty: another process writes into it; not a directory: replaced by a link
            if error.errno not in {errno.ENOTEMPTY, errno.ENOTDIR} or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _empty(
    directory: int, path: LocalPath, device: int, only: AbstractSet[str] | None = None
) -> None:
    """Remove everything in an open directory of a device. Links in it are removed, not followed.

    With `only`, the files at other paths stay, and the directories that contain them.

    Raises:
        TooDeep: directories are nested deeper than MAX_DEPTH.
        OSError: something can't be removed; EXDEV for a mounted file system.
    """
    if len(path.names) > MAX_DEPTH:
        raise TooDeep(f"{path} is nested deeper than {MAX_DEPTH} directories")
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if is_directory:
            remove_entry(directory, path.child(name), device, only)
            continue
        if only is not None and f"{path}/{name}" not in only:
            continue
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
