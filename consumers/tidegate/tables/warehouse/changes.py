"""One interface to change files in every kind of store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol

from tidegate.errors import TransientError
from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.parallel import ParallelMap
from tidegate.storage.store import Store

MayGo = Callable[[Sequence[FileInfo]], bool]
"""Decides from all files below a directory whether it may be removed or moved."""
Move = Callable[[str, str, MayGo], bool | None]
"""Moves a directory of one directory to a name in another one, see `Changes.moving`."""


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
            FormatError: directories are nested deeper than MAX_DEPTH.
            OSError: something can't be removed; EXDEV for a mounted file system.
        """
        ...


class Moved(NamedTuple):
    """The files of a moved directory that can be moved back."""

    files: int
    bytes: int
    is_partly_back: bool = False
    """Only its own files are where it came from: where objects move one by one, a process may have
    died between two of them."""


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
    def moving(self, source: str, target: str) -> AbstractContextManager[Move]:
        """Open two directories, to move directories from the first to the second.

        A place that can't rename, but has versions, moves a directory by removing its files: the
        target names their versions. Within one directory this changes a moved directory's name.

        Yields:
            A function that moves a directory with everything below it: it takes its name, its name
            in the target, and what decides from all its files. It returns whether it was moved;
            None if it does not exist, e.g. after a move by another process. It raises

            - ReachedByLink, ConfinementError: it is a link;
            - FileExistsError: the target has the name already;
            - TransientError: another directory took the name meanwhile;
            - OSError: it can't be moved; EXDEV for a mounted file system.

        Raises:
            PermanentError: this place can't move directories.
        """

    def moving_back(self, source: str, target: str) -> AbstractContextManager[Move]:
        """Open two directories, to move directories back that `moving` moved to the first."""
        return self.moving(source, target)

    def moved_names(self, location: str) -> Sequence[str]:
        """The names of the directories that were moved into a directory."""
        return [e.name for e in self.children(location) if e.is_dir and not e.is_link]

    def moved(
        self,
        location: str,
        names: Sequence[str],
        origin: str,  # noqa: ARG002 - of other places
        parallel_map: ParallelMap,
    ) -> Sequence[Moved | None]:
        """What of directories that were moved from `origin` can be moved back; None: nothing."""
        listed = self.trees(location, names, parallel_map)
        return [
            None
            if files is None
            else Moved(len(files), sum(f.size for f in files if not f.is_link))
            for files in listed
        ]

    def remove_moved(self, location: str, origin: str) -> None:  # noqa: ARG002 - of other places
        """Remove a directory that was moved from `origin` for good."""
        self.remove_tree(location)

    def shortened(self, location: str, keep: timedelta) -> Sequence[str]:  # noqa: ARG002
        """The rules of the place that remove what was moved sooner than after `keep`, by name."""
        return ()

    def limits(self) -> Sequence[str]:
        """What this place can't do, found out by trying; sentences for people."""
        return ()


class RemoteChanges(Changes):
    """A store without descriptors, so every call uses the full path."""

    @abstractmethod
    def entries(self, location: str) -> Sequence[FileInfo]:
        """Everything below a directory: files, and directories (on S3, their markers)."""

    def remove_listed(self, location: str, found: Sequence[FileInfo]) -> Sequence[FileInfo]:
        """Remove entries that were listed right before; return all that is there now.

        Raises:
            TransientError: something that was found is there still.
        """
        self.remove(found)
        left = self.below(location)
        self.require_gone(found, left)
        return left

    def remove_tree(self, location: str) -> None:
        """See `Changes`.

        Raises:
            TransientError: another process wrote below it.
        """
        if left := self.remove_listed(location, self.below(location)):
            raise TransientError(f"{left[0].path} was written during the removal of {location}")
        folder, _, name = location.rpartition("/")
        self.remove_names(folder, [name])

    @contextmanager
    def opened(self, location: str) -> Generator[OpenFolder]:
        """See `Changes`."""
        yield _Folder(self, location)

    def below(self, location: str) -> Sequence[FileInfo]:
        """Everything below a directory; nothing if it does not exist."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.entries(location)
        return []

    def require_gone(self, removed: Sequence[FileInfo], left: Sequence[FileInfo]) -> None:
        """Check that no removed file is there still; one that was written since is not ours.

        Raises:
            TransientError: it names one.
        """
        versions = {(entry.path, entry.version) for entry in removed}
        for entry in left:
            if (entry.path, entry.version) in versions:
                raise TransientError(f"{entry.path} is still there after its removal")


@dataclass(frozen=True, slots=True)
class _Folder:
    """A directory."""

    store: RemoteChanges
    location: str

    def files_below(self, name: str) -> Sequence[FileInfo] | None:
        """See `OpenFolder`."""
        found = self.store.below(f"{self.location}/{name}")
        return [entry for entry in found if not entry.is_dir] if found else None

    def remove_if(self, name: str, may_go: MayGo) -> bool:
        """See `OpenFolder`."""
        location = f"{self.location}/{name}"
        found = self.store.below(location)
        if not found:
            return True
        if not may_go([entry for entry in found if not entry.is_dir]):
            return False
        return not self.store.remove_listed(location, found)
