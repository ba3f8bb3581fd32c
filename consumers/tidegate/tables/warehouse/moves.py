"""Move directories from one local directory to another, by atomic renames that replace nothing.

Both parents are opened once, without following links. The directory that was checked is the one
that is moved: if another one took its name in between, the move is undone.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from tidegate.errors import TransientError
from tidegate.storage.local import (
    LocalPath,
    located,
    naming,
    open_below,
    opened_directory,
    walk_open,
)
from tidegate.tables.warehouse.changes import MayGo


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


def remove_if_empty(path: LocalPath) -> bool:
    """Remove a directory if it is empty; return whether it is gone.

    Raises:
        ReachedByLink, ConfinementError: a name on the way is a link.
    """
    try:
        with located(path), opened_directory(path.parent) as directory:
            try:
                os.rmdir(path.name, dir_fd=directory)
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    return False
                raise
    except (FileNotFoundError, NotADirectoryError):
        return True
    return True


def same_device(source: int, target: int, path: LocalPath) -> None:
    """Check that a rename between two open directories is possible.

    Raises:
        OSError: EXDEV: they are on different file systems.
    """
    if os.fstat(source).st_dev != os.fstat(target).st_dev:
        raise OSError(errno.EXDEV, "another file system is mounted here", str(path))
