"""What S3 and HDFS have in common: a directory goes file by file, exactly as it was listed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidegate.errors import TransientError
from tidegate.storage import FileInfo
from tidegate.tables.warehouse.changes import Changes, MayGo, OpenFolder


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
