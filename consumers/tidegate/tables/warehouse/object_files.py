"""Change a bucket: exactly what was listed goes, and no object of another process is replaced."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from tidegate.errors import PermanentError
from tidegate.storage import FileInfo
from tidegate.storage.file_info import Version
from tidegate.storage.object_store import ObjectStore
from tidegate.tables.warehouse.changes import RemoteChanges

FEW: Final = 8
"""Up to this number of files, requests for every file are faster than a listing."""
_AT_ONCE: Final = 8
"""Requests of a removal at the same time, by default."""
MARK: Final = "tidegatewriter"
"""The metadata of an object that identifies the call that wrote it. Azure takes no hyphens."""

T = TypeVar("T")
R = TypeVar("R")


class ObjectChanges(ObjectStore, RemoteChanges):
    """One bucket."""

    @abstractmethod
    def put(self, key: str, content: bytes, if_version: Version, mark: str | None) -> None:
        """Write an object if it still has this version; with None, if it does not exist.

        Without a mark it is written in any case.

        Raises:
            FileExistsError: it has another version.
        """

    @abstractmethod
    def mark_of(self, key: str) -> str | None:
        """The mark that an object was written with; None also if there is no object."""

    @abstractmethod
    def remove_one(self, entry: FileInfo) -> bool:
        """Remove an object; return False if it is gone, or has another version."""

    def create(self, location: str, content: bytes) -> None:
        """See `Changes`. The client repeats a request whose answer was lost.

        The repetition is refused by its own success, so each creation carries a mark of its own.
        """
        self._put_once(location, content, None)

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """See `Changes`."""
        if if_version is None:
            with self.request(location):
                self.put(self.key(location), content, None, None)
            return
        self._put_once(location, content, if_version)

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`."""
        if not entries:
            return 0
        folders = sorted((e for e in entries if e.is_dir), key=lambda e: e.path, reverse=True)
        removed = sum(self.at_once(self._remove, [e for e in entries if not e.is_dir]))
        return removed + sum(map(self._remove, folders))  # the deepest first

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """See `Changes`. A removal of a missing object succeeds, so they are counted before."""
        existing = self._existing(folder, names)
        removed = self.remove(existing)
        self.require_gone(existing, self._existing(folder, [e.name for e in existing]))
        return removed

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`."""
        _refuse(location)

    def moving(self, source: str, target: str) -> Any:  # noqa: ANN401 - never returns
        """See `Changes`."""
        del target
        _refuse(source)

    def at_once(self, act: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results of `act`, which makes one request, for each item."""
        with ThreadPoolExecutor(self.max_concurrency or _AT_ONCE) as pool:
            return list(pool.map(act, items))

    def entry_or_none(self, location: str) -> FileInfo | None:
        """A file; None if there is none."""
        with suppress(FileNotFoundError):
            return self.entry(location)
        return None

    def _remove(self, entry: FileInfo) -> bool:
        with self.request(entry.path):
            return self.remove_one(entry)

    def _existing(self, folder: str, names: Sequence[str]) -> list[FileInfo]:
        if len(names) <= FEW:
            found = (self.entry_or_none(f"{folder}/{name}") for name in names)
            return [entry for entry in found if entry is not None]
        wanted = set(names)
        with suppress(FileNotFoundError):
            return [e for e in self.children(folder) if e.name in wanted and not e.is_dir]
        return []

    def _put_once(self, location: str, content: bytes, if_version: Version) -> None:
        key, mark = self.key(location), uuid.uuid4().hex
        with self.request(location):
            try:
                self.put(key, content, if_version, mark)
            except FileExistsError:
                if self.mark_of(key) != mark:
                    raise FileExistsError(location) from None


def _refuse(location: str) -> NoReturn:
    raise PermanentError(f"{location} is on an object store, which has no atomic rename")
