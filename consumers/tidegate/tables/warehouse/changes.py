"""One interface to change the files of every place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.store import Store

MayGo = Callable[[Sequence[FileInfo]], bool]
"""Decides from all files below a directory whether it may be removed or moved."""


class OpenFolder(Protocol):
    """A directory of a warehouse while directories in it are removed."""

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        """List all files below one of its directories; None if that does not exist."""
        ...

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        """Remove one of its directories, if `may_go` accepts the files.

        Only files that `may_go` saw are removed. If other files appear meanwhile, it is asked
        again, or the directory is left.

        Returns:
            Whether it is gone; also True if there was no such directory.

        Raises:
            ReachedByLink, ConfinementError: it is a link.
            TooDeep: directories are nested deeper than MAX_DEPTH.
            OSError: something can't be removed; EXDEV for a mounted file system.
        """
        ...


class Moves(Protocol):
    """Two directories of one file system: directories of the first move to the second."""

    def move_if(self, name: str, may_go: MayGo, as_name: str | None = None) -> bool | None:
        """Move a directory with everything below it, if `may_go` accepts its files.

        Args:
            name: Its name in the source.
            may_go: Decides from all files below the directory.
            as_name: Its name in the target; by default the same.

        Returns:
            Whether it was moved; None if it does not exist, e.g. after a move by another process.

        Raises:
            ReachedByLink, ConfinementError: it is a link.
            FileExistsError: the target has the name already.
            TransientError: another directory took the name meanwhile.
            OSError: it can't be moved; EXDEV for a mounted file system.
        """
        ...


class Changes(Store):
    """Changes the files of one place. The caller has checked that locations are below a root.

    Removing a missing file succeeds. What is removed is exactly what was listed or named: a file
    that another process writes meanwhile stays.
    """

    @abstractmethod
    def create(self, location: str, content: bytes) -> None:
        """Create a file, never over an existing one; also where the first answer is lost.

        Raises:
            FileExistsError: another process created it.
        """

    @abstractmethod
    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """Replace a file, or create it if `if_version` is None.

        Raises:
            FileExistsError: it has another version by now, or is gone.
        """

    @abstractmethod
    def remove(self, entries: Sequence[FileInfo]) -> int:
        """Remove files that were listed; return how many.

        A file whose name another file took meanwhile is left where the place can tell: on local
        file systems, and on S3 where the server honours conditions.

        Raises:
            TransientError: a file is still there.
            OSError: the store refuses a removal.
        """

    @abstractmethod
    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """Remove files of one directory, in this order; return how many existed."""

    @abstractmethod
    def remove_tree(self, location: str) -> None:
        """Remove a file, or a directory and everything below it."""

    @abstractmethod
    def remove_if_empty(self, location: str) -> bool:
        """Remove a directory if it is empty; return whether it is gone."""

    @abstractmethod
    def opened(self, location: str) -> AbstractContextManager[OpenFolder]:
        """Open a directory, to remove directories in it."""

    @abstractmethod
    def moving(self, source: str, target: str) -> AbstractContextManager[Moves]:
        """Open two directories, to move directories from the first to the second.

        Raises:
            PermanentError: this place can't rename.
        """

    def limits(self) -> Sequence[str]:
        """What this place can't do, found out by trying; sentences for people."""
        return ()
